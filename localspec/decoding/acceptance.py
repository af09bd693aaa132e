"""What the target accepts of a drafter's tokens: estimates that learn fast and forget."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from localspec.decoding.protocols import Draft

_BUCKETS = 10
_PRIOR_WEIGHT = 12.0
_FORGET = 0.98
"""Share that an estimate keeps at each new sighting: about the last fifty count."""
_STEP = 0.15
"""How far one surprise moves the bias of all of a drafter's tokens (log odds)."""
_RELAX = 0.98
_CAUTION = -0.5
"""The bias before anything is known: a draft has to look good to be tried."""
_LEAST, _MOST = 0.01, 0.995
_FORGET_PROSPECT, _FORGET_WAITING = 0.93, 0.99
"""About the last fifteen answers of a drafter count, and fewer if it was asked seldom: the text is
another one by then."""
_PROSPECT_WEIGHT = 3.0
_UNKNOWN = 0.5
"""Confidence of a drafter that states none."""


class Calibration:
    """Turns a drafter's confidences into probabilities of acceptance.

    Two corrections on top of the stated confidence: a decaying mean per confidence bucket (or per
    position where a drafter states none), which begins as the confidence itself; and a bias over
    all of the drafter's tokens in log odds, which follows the text within a few rounds when it
    changes character and fades when nothing surprises.
    """

    def __init__(self) -> None:
        self._hits = [0.0] * (_BUCKETS + 1)
        self._trials = [0.0] * (_BUCKETS + 1)
        self._position_hits: list[float] = []
        self._position_trials: list[float] = []
        self._bias = _CAUTION

    def probabilities(self, draft: Draft) -> list[float]:
        """For each token the probability that it is accepted when those before it are."""
        factor = exp(self._bias)
        if draft.confidences:
            return [_shifted(self._by_confidence(stated), factor) for stated in draft.confidences]
        return [_shifted(mean, factor) for mean in self._by_position(len(draft.tokens))]

    def learn(self, draft: Draft, kept: Sequence[int]) -> None:
        """The target went on with `kept`; compare as far as the draft can be judged by it."""
        for at, (token, said) in enumerate(zip(draft.tokens, kept, strict=False)):
            hit = token == said
            self._learn_one(draft, at, hit)
            if not hit:
                break

    def _by_confidence(self, confidence: float) -> float:
        bucket = int(confidence * _BUCKETS)
        return (self._hits[bucket] + _PRIOR_WEIGHT * confidence) / (
            self._trials[bucket] + _PRIOR_WEIGHT
        )

    def _by_position(self, length: int) -> list[float]:
        """A position that was seldom reached is about as good as the one before it."""
        means: list[float] = []
        mean = _UNKNOWN
        for at in range(length):
            if at < len(self._position_hits):
                mean = (self._position_hits[at] + _PRIOR_WEIGHT * mean) / (
                    self._position_trials[at] + _PRIOR_WEIGHT
                )
            means.append(mean)
        return means

    def _learn_one(self, draft: Draft, at: int, hit: bool) -> None:
        if draft.confidences:
            mean = self._by_confidence(draft.confidences[at])
            hits, trials, slot = self._hits, self._trials, int(draft.confidences[at] * _BUCKETS)
        else:
            mean = self._by_position(at + 1)[at]
            hits, trials, slot = self._position_hits, self._position_trials, at
            while len(hits) <= at:
                hits.append(0.0)
                trials.append(0.0)
        self._bias = self._bias * _RELAX + _STEP * (hit - _shifted(mean, exp(self._bias)))
        hits[slot] = hits[slot] * _FORGET + hit
        trials[slot] = trials[slot] * _FORGET + 1.0


class Prospect:
    """What a drafter that is too dear to ask in vain will probably propose, and have accepted.

    By position: how often it goes on to propose another token, and how often that is accepted,
    each given that everything before it was.
    """

    def __init__(self, draft_max: int, *, goes_on: float = 0.9, accepted: float = 0.75) -> None:
        self._goes_on = goes_on
        self._accepted = accepted
        self._asked = [0.0] * draft_max
        self._proposed = [0.0] * draft_max
        self._judged = [0.0] * draft_max
        self._kept = [0.0] * draft_max

    def learn(self, draft: Draft, asked_for: int, kept: Sequence[int], *, waited: int = 0) -> None:
        """`draft` answered a request for `asked_for` tokens; `kept` is what the target said.

        waited: rounds in which it was not asked, since it last was.
        """
        share = _FORGET_PROSPECT * _FORGET_WAITING**waited
        for means in (self._asked, self._proposed, self._judged, self._kept):
            # Also positions that were not reached grow old.
            means[:] = [share * mean for mean in means]
        proposed = len(draft.tokens)
        for at in range(min(asked_for, proposed + 1, len(self._asked))):
            self._asked[at] += 1.0
            self._proposed[at] += at < proposed
        for at, (token, said) in enumerate(zip(draft.tokens, kept, strict=False)):
            if at >= len(self._judged):
                break
            hit = token == said
            self._judged[at] += 1.0
            self._kept[at] += hit
            if not hit:
                break

    def forecast(self, most: int) -> list[tuple[float, float]]:
        """For each position up to `most`: the probability that a token is proposed there, and that
        it is proposed and accepted."""
        forecast: list[tuple[float, float]] = []
        # A position that was never reached is as good as the one before it.
        goes_on, accepted = self._goes_on, self._accepted
        proposed_so_far = accepted_so_far = 1.0
        for at in range(min(most, len(self._asked))):
            goes_on = (self._proposed[at] + _PROSPECT_WEIGHT * goes_on) / (
                self._asked[at] + _PROSPECT_WEIGHT
            )
            accepted = (self._kept[at] + _PROSPECT_WEIGHT * accepted) / (
                self._judged[at] + _PROSPECT_WEIGHT
            )
            proposed_so_far *= goes_on
            accepted_so_far *= goes_on * accepted
            forecast.append((proposed_so_far, accepted_so_far))
        return forecast


def _shifted(probability: float, factor: float) -> float:
    """`probability` with its odds multiplied by `factor`, kept away from certainty."""
    clipped = min(max(probability, _LEAST), _MOST)
    odds = clipped / (1.0 - clipped) * factor
    return min(odds / (1.0 + odds), _MOST)
