"""A file appears whole or not at all: written beside its place, flushed to the disk, renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_whole(path: Path, data: str | bytes, *, private: bool = False) -> None:
    """Put `data` (text as UTF-8) at `path`; a reader sees the old file or the new one.

    The permissions of a file that is there already are kept, and a symbolic link goes on pointing
    at what it pointed at. private: a new file is for its owner alone. The folder must exist.
    Raises OSError when the disk refuses; nothing is left behind then.
    """
    whole = Path(os.path.realpath(path))
    # A name of its own for each writer: two of them at once must not share a partial file.
    partial = whole.with_name(f".{whole.name[:40]}.{secrets.token_hex(6)}.part")
    descriptor = os.open(partial, _NEW, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            partial.chmod(stat.S_IMODE(whole.stat().st_mode))
        partial.replace(whole)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
