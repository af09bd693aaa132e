"""Hashes of files that lie in other programs' folders, remembered by path, size and time of change.

Such a file is used in place. Where the catalogue pins a hash and the folder does not name the file
by it, `pull` hashes the file once; what came out is kept here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from localspec.whole_file import write_whole

_BLOCK = 1 << 20


class VerifiedFiles:
    """The hashes that are known. A damaged file of them counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sha256(self, path: Path) -> str | None:
        """The hash of the file as it is now; None when it was never computed."""
        found = self._load().get(_key(path))
        return found if isinstance(found, str) else None

    def compute(self, path: Path, on_block: Callable[[int], None]) -> str:
        """Hash the file and remember it; `on_block` is told the bytes of each block."""
        digest = hash_file(path, on_block)
        known = {**self._load(), _key(path): digest}
        # Not remembered where the disk refuses: it costs the same time once more.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(known))
        return digest

    def _load(self) -> dict[str, object]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}


def hash_file(path: Path, on_block: Callable[[int], None]) -> str:
    """sha256 of a file; `on_block` is told the bytes of each block."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            on_block(len(block))
    return digest.hexdigest()


def _key(path: Path) -> str:
    stat = path.stat()
    return f"{path}:{stat.st_size}:{stat.st_mtime_ns}"
