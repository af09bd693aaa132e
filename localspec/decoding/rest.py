"""Rounds in which nobody is asked: where drafts are never worth it, even asking costs something."""

from __future__ import annotations

_ROUNDS_PER_STEP = 4
"""Rounds without a draft after which the rest between two questions grows by one round."""
_LONGEST = 3
"""Rounds of rest at most: so many tokens late is a change of the text noticed."""
_SHARE = 0.01
"""Share of a plain pass that asking may take, spread over the rounds of rest."""
_WHOLE = 2.5
"""What a question costs in all, in times of what the proposal itself takes: what is proposed is
also judged, and counted, and learned from."""
_KEPT = 0.9


class Rest:
    """Decides whether the drafters are asked in a round.

    A question takes a few tenths of a millisecond. That is nothing beside the pass of a large
    model, and several percent of the pass of a small one; so how long to rest is found from what
    asking takes here.
    """

    def __init__(self) -> None:
        self._asking_s = 0.0
        self._idle = 0
        self._left = 0
        self._rounds = 0
        self._seconds = 0.0
        self.is_on = False
        """Whether the present round is one of rest."""

    def begin(self) -> None:
        """A new answer: everybody is asked."""
        self._idle = self._left = 0
        self.is_on = False

    def begins_round(self) -> bool:
        """Whether the round that begins now is one of rest."""
        self.is_on = self._left > 0
        self._left -= self.is_on
        return self.is_on

    def count(self, seconds: float) -> None:
        """A round of rest took so long."""
        self._rounds += 1
        self._seconds += seconds
        self.is_on = False

    def take(self) -> tuple[int, float]:
        """Rounds of rest since the last call, and their seconds."""
        taken = self._rounds, self._seconds
        self._rounds, self._seconds = 0, 0.0
        return taken

    def asked(self, asking_s: float, plain_s: float, *, in_vain: bool) -> None:
        """A round in which drafters were asked: it took `asking_s` to propose, a pass over one
        token takes `plain_s`. in_vain: whether nothing was worth proposing."""
        kept = _KEPT if self._asking_s else 0.0
        self._asking_s = self._asking_s * kept + asking_s * (1.0 - kept)
        self._idle = self._idle + 1 if in_vain else 0
        worth = int(_WHOLE * self._asking_s / (_SHARE * plain_s))
        self._left = min(self._idle // _ROUNDS_PER_STEP, worth, _LONGEST)
