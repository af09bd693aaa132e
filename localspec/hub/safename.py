"""Names from elsewhere made into names for this disk: nothing leads out of the store."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

from localspec.errors import UsageError

_MAX_COMPONENT = 150
"""Bytes of one component; file systems allow 255, and partial names and records add to it."""
_MAX_DEPTH = 16
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=@,()[]{}~!#$&' "
)
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)


def safe_component(name: str) -> str:
    """A file name that is legal on Linux, macOS and Windows, and different for different names.

    Characters that some system forbids are written as `%XX` of their UTF-8 bytes; a name that
    Windows reserves has its first character written so; a long name is cut and marked with a
    piece of its sha256. Raises UsageError for names that no file can have.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UsageError(f"{name!r} cannot be a file name", name=name)
    safe = "".join(c if c in _PLAIN else _encoded(c) for c in name)
    if safe[-1] in ". ":
        safe = safe[:-1] + _encoded(safe[-1])
    if safe[0] in ". ":
        # Names with a leading dot are the store's own: partial files, records, locks.
        safe = _encoded(safe[0]) + safe[1:]
    if safe.split(".", 1)[0].rstrip().lower() in _RESERVED:
        safe = _encoded(safe[0]) + safe[1:]
    if len(safe) > _MAX_COMPONENT:
        mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        suffix = ".gguf" if safe.lower().endswith(".gguf") else ""
        safe = f"{safe[: _MAX_COMPONENT - len(suffix) - 17].rstrip('. ')}~{mark}{suffix}"
    return safe


def safe_relative(name: str) -> PurePosixPath:
    """A path of safe components below some folder, for the path `name` inside a repository.

    Raises UsageError when `name` is absolute, climbs with `..`, or is deeper than any real one.
    """
    parts = name.replace("\\", "/").split("/")
    if any(part in ("", ".", "..") for part in parts) or len(parts) > _MAX_DEPTH:
        raise UsageError(
            f"{_shown(name)} is not a path inside a repository",
            hint="write it as the Hub shows it: folder/file.gguf",
            name=name,
        )
    if len(parts[0]) == 2 and parts[0][1] == ":":
        raise UsageError(f"{_shown(name)} is an absolute path, not one inside a repository")
    return PurePosixPath(*(safe_component(part) for part in parts))


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _shown(name: str) -> str:
    shown = repr(name)
    return shown if len(shown) <= 120 else f"{shown[:117]}..."
