"""What a fake Hub is made of: files, repositories, faults, and a line of its log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

COMMIT = "c0ffee" + "0" * 34


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to misbehave, for one request."""

    status: int = 200
    """Another status is answered at once, with `headers`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    drop_after: int | None = None
    """Bytes of the body after which the connection is reset."""
    stall_after: int | None = None
    """Bytes of the body after which nothing comes any more, while the connection stays."""
    no_range: bool = False
    """Ranges are ignored: the whole file is sent with status 200."""
    flip_byte: int | None = None
    """Position of a byte that is sent wrong."""
    cut_after: int | None = None
    """Bytes after which the body ends as if it were complete, without a Content-Length."""
    wrong_range: bool = False
    """The body begins one byte later than asked, and says so."""


@dataclass(slots=True)
class HubFile:
    """One file of a repository: bytes in memory, or a file on disk."""

    content: bytes | Path
    sha256: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.content, bytes):
            self.size = len(self.content)
            self.sha256 = self.sha256 or hashlib.sha256(self.content).hexdigest()
        else:
            self.size = self.content.stat().st_size
            if not self.sha256:
                with self.content.open("rb") as file:
                    self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(slots=True)
class HubRepo:
    """One repository, the same at every revision that it has."""

    files: dict[str, HubFile]
    gated: bool = False
    """Files need a token that is in `FakeHub.accepted`."""
    private: bool = False
    """Nobody without such a token learns that it exists."""
    revisions: tuple[str, ...] = ("main",)
    commit: str = COMMIT


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the log."""

    server: str
    """`hub` or `storage`."""
    method: str
    path: str
    range: str | None
    token: str | None
