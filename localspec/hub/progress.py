"""Progress of one file: bytes, a smoothed rate, and not more events than eyes can follow."""

from __future__ import annotations

import time
from collections.abc import Callable

from localspec.events import DownloadProgress

OnProgress = Callable[[DownloadProgress], None]

_EVERY_S = 0.1
"""Least time between two events of a file within one stage."""
_SMOOTHING_S = 3.0
"""Time over which the rate forgets."""


class FileProgress:
    """Counts the bytes of one file and reports them; one thread at a time uses it."""

    def __init__(
        self,
        role: str,
        name: str,
        total: int,
        report: OnProgress,
        clock: Callable[[], float] = time.monotonic,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self._role = role
        self._name = name
        self._total = total
        self._report = report
        self._on_note = on_note
        self._clock = clock
        self._stage = "waiting"
        self._done = 0
        self._rate = 0.0
        self._rated_at = clock()
        self._rated_done = 0
        self._reported_at = float("-inf")

    @property
    def done(self) -> int:
        """Bytes on disk or verified, by the stage."""
        return self._done

    def note(self, text: str) -> None:
        """One line for the user to read, whatever the stage."""
        if self._on_note is not None:
            self._on_note(text)

    def start(self, stage: str, done: int = 0, total: int | None = None) -> None:
        """Enter a stage with `done` bytes behind us; bytes from before do not count as rate."""
        self._stage = stage
        self._done = done
        self._total = self._total if total is None else total
        self._rate = 0.0
        self._rated_at, self._rated_done = self._clock(), done
        self._emit()

    def reach(self, done: int) -> None:
        """`done` bytes of this stage are behind us."""
        self._done = done
        now = self._clock()
        if now - self._reported_at >= _EVERY_S:
            self._measure(now)
            self._emit()

    def advance(self, count: int) -> None:
        self.reach(self._done + count)

    def _measure(self, now: float) -> None:
        elapsed = now - self._rated_at
        if elapsed <= 0:
            return
        rate = max(0.0, (self._done - self._rated_done) / elapsed)
        weight = min(1.0, elapsed / _SMOOTHING_S) if self._rate else 1.0
        self._rate += weight * (rate - self._rate)
        self._rated_at, self._rated_done = now, self._done

    def _emit(self) -> None:
        self._reported_at = self._clock()
        self._report(
            DownloadProgress(
                self._role, self._name, self._done, self._total, self._rate, self._stage
            )
        )
