"""One process at a time fetches a file; the others wait for it and find it finished."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from localspec.hub.store import Cancelled

_POLL_S = 0.1


@contextlib.contextmanager
def file_lock(path: Path, cancel: threading.Event) -> Iterator[None]:
    """Hold the lock at `path`; it falls by itself when the process dies.

    Raises Cancelled when `cancel` is set while another process holds it.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=_POLL_S)
            break
        except Timeout:
            if cancel.is_set():
                raise Cancelled("the download was stopped while another one ran") from None
    try:
        yield
    finally:
        lock.release()
