"""A file on its way: its bytes under a quarantine name, and what they are bytes of."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import TracebackType

from localspec.whole_file import write_whole

_BLOCK = 1 << 20


class PartialFile:
    """Bytes that arrived, in order from the first, hashed as they come.

    Written without a buffer of ours: what was written survives the death of the process. Beside
    it, `.state` tells which version of the file the bytes belong to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state_path = path.with_name(f"{path.name}.state")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Read and write without truncating; created when missing.
        self._file = path.open("r+b" if path.exists() else "x+b", buffering=0)
        self._digest = hashlib.sha256()
        self._hashed = 0

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._file.seek(0, 2)

    @property
    def hashed(self) -> int:
        """Bytes that the hash covers so far."""
        return self._hashed

    @property
    def sha256(self) -> str:
        """Of the first `hashed` bytes."""
        return self._digest.hexdigest()

    def claim(self, etag: str, size: int) -> bool:
        """These bytes are to become the version `etag`; bytes of another version are dropped.

        Whether what was there is of that version.
        """
        identity = {"etag": etag, "size": size}
        if self._read_state() == identity and self.size <= size:
            return True
        self.restart()
        write_whole(self._state_path, json.dumps(identity))
        return False

    def restart(self) -> None:
        """Forget every byte."""
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self._hashed = 0

    def hash_some(self) -> int:
        """Hash the next block of what is on disk and not hashed yet; bytes hashed, 0 at the end."""
        self._file.seek(self._hashed)
        block = self._file.read(_BLOCK)
        self._digest.update(block)
        self._hashed += len(block)
        return len(block)

    def append(self, data: bytes) -> None:
        """Write `data` behind the hashed bytes and hash it."""
        self._file.seek(self._hashed)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._digest.update(data)
        self._hashed += len(data)

    @property
    def whole_path(self) -> Path:
        """Where another transfer may put the whole file, for `take_whole`."""
        return self.path.with_name(f"{self.path.name}.whole")

    def take_whole(self) -> None:
        """The file at `whole_path` takes the place of these bytes; nothing of it is hashed yet."""
        self._file.close()
        self.whole_path.replace(self.path)
        self._file = self.path.open("r+b", buffering=0)
        self._digest = hashlib.sha256()
        self._hashed = 0

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        """Take the bytes and their state away."""
        self.close()
        for path in (self.path, self._state_path, self.whole_path):
            path.unlink(missing_ok=True)

    def forget(self) -> None:
        """The bytes have got their final name: what they were bytes of is of no more use."""
        self._state_path.unlink(missing_ok=True)

    def _read_state(self) -> object:
        return _read_state(self._state_path)


def resumable_bytes(path: Path, etag: str, size: int) -> int:
    """Bytes at `path` that an earlier try left of the version `etag`; 0 when there are none."""
    state = _read_state(path.with_name(f"{path.name}.state"))
    try:
        found = path.stat().st_size
    except OSError:
        return 0
    return found if state == {"etag": etag, "size": size} and found <= size else 0


def _read_state(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
