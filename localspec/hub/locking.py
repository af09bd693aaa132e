"""One process at a time fetches a file; the others wait for it and find it finished."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from localspec.hub.control import PullControl

_POLL_S = 0.1


@contextlib.contextmanager
def file_lock(path: Path, control: PullControl) -> Iterator[None]:
    """Hold the lock at `path`; it falls by itself when the process dies.

    Raises Cancelled when the pull is cancelled while another process holds it.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=_POLL_S)
            break
        except Timeout:
            control.check()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def lock_at_once(path: Path) -> Iterator[bool]:
    """Whether the lock at `path` could be had without waiting; held until the end if so."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
