"""Measured cost curves on disk: one file per model file, device, threads and build."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from localspec.decoding.cost_curve import CostCurve
from localspec.whole_file import write_whole


def cost_path(folder: Path, model: Path, *circumstances: object) -> Path:
    """The file for a model under these circumstances (device, threads, build, KV type)."""
    status = model.stat()
    key = [str(model.resolve()), status.st_size, status.st_mtime_ns, *map(str, circumstances)]
    return folder / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]}.json"


def load_costs(path: Path) -> CostCurve | None:
    """The curve that was saved; None when there is none, or none that can be read: it is measured
    again then."""
    try:
        return CostCurve.from_dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError):
        return None


def save_costs(path: Path, curve: CostCurve) -> None:
    """Keep a curve for the next load. Raises OSError when the disk refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(curve.as_dict()))
