"""Stopping, pausing and resuming a pull from another thread."""

from __future__ import annotations

import threading

from localspec.errors import Interrupted


class Cancelled(Interrupted):
    """The download was stopped on request; what arrived is kept for the next time."""


class PullControl:
    """Handed to a pull; its methods may be called from any thread, at any time."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._running = threading.Event()
        self._running.set()

    def cancel(self) -> None:
        """Stop for good; the pull raises Cancelled."""
        self._cancelled.set()
        self._running.set()

    def pause(self) -> None:
        """Close the connections after the next bytes; what arrived is kept."""
        self._running.clear()

    def resume(self) -> None:
        """Go on where the pause began."""
        self._running.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    def check(self) -> None:
        """Raises Cancelled once the pull is cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("the download was stopped", hint="pull again to go on")

    def wait_until_running(self) -> None:
        """Return when nothing pauses the pull. Raises Cancelled."""
        self._running.wait()
        self.check()

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than until the pull is cancelled. Raises Cancelled."""
        self._cancelled.wait(seconds)
        self.check()
