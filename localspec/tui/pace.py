"""Keys before the stream: while the user types, an answer is drawn less often."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

_KEY_S = 0.15
"""Seconds after a key during which only its own effect is drawn: who types fast is faster."""
_LONGEST_S = 0.4
"""Seconds after which the stream is drawn all the same."""


class Pace:
    """Says when it is the stream's turn to be drawn."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """clock: seconds."""
        self._clock = clock
        self._key_at = self._drawn_at = float("-inf")

    def key(self) -> None:
        """A key was pressed."""
        self._key_at = self._clock()

    @property
    def since_key(self) -> float:
        """Seconds since the last key; infinite before the first."""
        return self._clock() - self._key_at

    def may_draw(self) -> bool:
        """Whether the stream may be drawn now; a yes counts as drawing it."""
        now = self._clock()
        if now - self._key_at < _KEY_S and now - self._drawn_at < _LONGEST_S:
            return False
        self._drawn_at = now
        return True
