"""Results remembered on this computer, one file per machine under the user's data folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from localspec.bench.machine import Machine, this_machine
from localspec.bench.results import Comparison
from localspec.bench.server_methods import FOREIGN
from localspec.paths import Paths, user_paths
from localspec.whole_file import write_whole

FORMAT = 1
KEPT_PER_MODEL = 20
"""Older results of the same model are forgotten."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One finished benchmark."""

    model: str
    """As the user named it: a pair id, a path or a repository."""
    when: str
    """ISO 8601 time, UTC."""
    version: str
    """Version of localspec that measured."""
    settings: dict[str, Any]
    """What else decides the figures: draft, context, threads, tokens, temperature."""
    workloads: dict[str, int]
    """Version of each workload's texts by name."""
    speedups: dict[str, float]
    """Geometric mean over all prompts, by method."""
    worst: dict[str, float]
    """Worst prompt, by method."""
    by_workload: dict[str, dict[str, float]]
    """Method, then workload."""

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def remembered(
    comparison: Comparison,
    *,
    model: str,
    when: str,
    version: str,
    settings: dict[str, Any],
    workloads: dict[str, int],
) -> Remembered:
    """What of a comparison is worth keeping."""
    timed = [group for group in comparison.summary if group.speedup is not None]
    by_workload: dict[str, dict[str, float]] = {}
    for group in comparison.groups:
        if group.speedup is not None:
            by_workload.setdefault(group.method, {})[group.workload] = group.speedup
    return Remembered(
        model=model,
        when=when,
        version=version,
        settings=settings,
        workloads=workloads,
        speedups={group.method: group.speedup for group in timed if group.speedup is not None},
        worst={group.method: group.worst for group in timed if group.worst is not None},
        by_workload=by_workload,
    )


class History:
    """The results of one machine. A file that is damaged or of another format counts as empty:
    results can be measured again, and a bad file must not keep `list` from working."""

    def __init__(self, paths: Paths, machine: Machine) -> None:
        self._machine = machine
        self.path = paths.data / "bench" / f"{machine.key}.json"

    def load(self) -> tuple[Remembered, ...]:
        """Everything remembered, oldest first."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                return ()
            return tuple(Remembered(**item) for item in data["results"])
        except (OSError, ValueError, TypeError, KeyError):
            return ()

    def add(self, result: Remembered) -> None:
        """Remember one more; the file is replaced as a whole."""
        results = [*self.load(), result]
        same = [item for item in results if item.model == result.model]
        dropped = same[:-KEPT_PER_MODEL]
        document = {
            "format": FORMAT,
            "machine": self._machine.as_dict(),
            "results": [item.as_dict() for item in results if item not in dropped],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    def latest(self, model: str) -> Remembered | None:
        """The newest result of a model; None when it was never measured here."""
        return next((item for item in reversed(self.load()) if item.model == model), None)


def measured_speedups(
    models: Iterable[str], *, paths: Paths | None = None, machine: Machine | None = None
) -> dict[str, float]:
    """For each model measured on this machine the speed-up of `auto` over plain decoding, or of
    the fastest method where `auto` was not measured. The newest result over the most workloads
    counts. Models never measured are left out."""
    history = History(paths or user_paths(), machine or this_machine())
    wanted = set(models)
    found: dict[str, tuple[int, float]] = {}
    for item in history.load():
        speedup = _told(item)
        if item.model not in wanted or speedup is None:
            continue
        breadth, _ = found.get(item.model, (0, 0.0))
        if len(item.workloads) >= breadth:
            found[item.model] = (len(item.workloads), speedup)
    return {model: speedup for model, (_, speedup) in found.items()}


def measured_speedup(
    pair_id: str, *, paths: Paths | None = None, machine: Machine | None = None
) -> float | None:
    """As `measured_speedups`, for one model; None when it was never measured here."""
    return measured_speedups([pair_id], paths=paths, machine=machine).get(pair_id)


def _told(result: Remembered) -> float | None:
    if "auto" in result.speedups:
        return result.speedups["auto"]
    own = [value for name, value in result.speedups.items() if not name.startswith(FOREIGN)]
    return max(own, default=None)
