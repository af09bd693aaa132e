"""What an answer may lose to drafting: little at first, more once drafting has won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_FIRST = 1.2
"""Plain passes that an answer may lose at its beginning."""
_SHARE = 0.02
"""Share of the time by which the stake grows."""
_MOST = 20.0
"""Plain passes that gains can add up to."""
_LEAST = 0.05
"""Plain passes that count as held where nothing is left, so that it can be divided by."""
_CREDIT_MOST = 1.5
"""Plain passes that rehearsals can add up to: enough to reach for a longer draft, and no more lost
when the real thing goes otherwise."""


@dataclass(slots=True)
class _Rehearsal:
    """A draft that promised a gain but could not be afforded: what would have come of it."""

    tokens: tuple[int, ...]
    cost_s: float
    """Seconds of the pass that it would have taken."""
    right: int = 0
    """Its tokens that the target has said since."""


class Stake:
    """Bounds the loss of an answer whatever the estimates say; counted in plain passes.

    Drafts that were too dear to play are rehearsed: compared with what the target says in the
    rounds that follow. A drafter that is right again and again so earns the trust for long drafts
    on machines where the short ones, which are all that the stake affords, can win nothing.
    """

    def __init__(self) -> None:
        self._held = _FIRST
        self._credit = 0.0
        self._rehearsal: _Rehearsal | None = None

    def begin(self) -> None:
        """A new answer."""
        self._held = _FIRST
        self._credit = 0.0
        self._rehearsal = None

    @property
    def held(self) -> float:
        """Plain passes that may be lost, rehearsals left out."""
        return self._held

    @property
    def wealth(self) -> float:
        """Plain passes that may be lost; above 0.0 also where nothing is left."""
        return max(self._held + self._credit, _LEAST)

    def affordable(self, most: int, table: Sequence[float]) -> int:
        """The longest draft, up to `most`, whose rejection as a whole is covered.

        table: entry n is C(n) in seconds.
        """
        bound = table[1] * (1.0 + self._held + self._credit)
        length = 0
        while length < most and table[length + 2] <= bound:
            length += 1
        return length

    def settle(self, lost_s: float, plain_s: float) -> None:
        """A round took `lost_s` longer than plain decoding of the same tokens; negative: it won."""
        self._held = min(self._held + _SHARE - lost_s / plain_s, _MOST)

    def rest(self, rounds: int) -> None:
        """So many rounds of plain decoding."""
        self._held = min(self._held + rounds * _SHARE, _MOST)

    @property
    def is_rehearsing(self) -> bool:
        """Whether a draft is being compared with what comes."""
        return self._rehearsal is not None

    def rehearse(self, tokens: tuple[int, ...], cost_s: float) -> None:
        """Watch what would come of `tokens`, if nothing is being watched yet."""
        if self._rehearsal is None:
            self._rehearsal = _Rehearsal(tokens, cost_s)

    def hear(self, kept: Sequence[int], plain_s: float) -> None:
        """The target said `kept`. At the end of a rehearsal, count what it would have won."""
        rehearsal = self._rehearsal
        if rehearsal is None:
            return
        tokens = rehearsal.tokens
        for token in kept:
            if token == tokens[rehearsal.right]:
                rehearsal.right += 1
                if rehearsal.right < len(tokens):
                    continue
            won = (1 + rehearsal.right) - rehearsal.cost_s / plain_s
            self._credit = min(max(self._credit + won, 0.0), _CREDIT_MOST)
            self._rehearsal = None
            return
