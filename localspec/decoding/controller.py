"""`auto`: each round the drafter and the length that win the most time, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from time import perf_counter
from typing import Any, Protocol

from localspec.decoding.acceptance import Calibration, Prospect
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter, Round
from localspec.decoding.stake import Stake

_RATE_KEPT = 0.97
"""The rate of decoding is that of about the last thirty rounds."""
_MARGIN = 0.03
"""Tokens per round that a draft must promise beyond plain decoding, against noise."""
_TIME_KEPT = 0.9
_ENOUGH = 0.7
"""Share of the possible tokens that makes asking further drafters a waste of time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 4, 48
"""Rounds between two questions to a dear drafter that promises nothing; the pause doubles after
each wrong answer and starts again after a right one."""
_GUESSED_TOKEN_SHARE = 0.25
"""Time of a dear drafter's token as a share of a plain pass, before it was measured."""


class CostlyDrafter(Drafter, Protocol):
    """A drafter whose proposals cost passes of a model: asked only when it is worth it."""

    stop_below: float
    """It stops where the product of its confidences falls below."""

    @property
    def n_missing(self) -> int:
        """Tokens it has to catch up on before it can propose."""
        ...


@dataclass(slots=True)
class _Cheap:
    """A drafter that is asked every round: what it says decides whether it is followed."""

    drafter: Drafter
    by_source: dict[str, Calibration] = field(default_factory=dict)
    draft: Draft = NO_DRAFT

    def calibration(self, source: str) -> Calibration:
        found = self.by_source.get(source)
        if found is None:
            found = self.by_source[source] = Calibration()
        return found


@dataclass(slots=True)
class _Costly:
    """A drafter that is asked when its past promises a gain, and once in a while to learn."""

    drafter: CostlyDrafter
    prospect: Prospect
    calibration: Calibration = field(default_factory=Calibration)
    token_s: float = 0.0
    """Seconds for each token it proposes; 0.0 before it was measured."""
    pause: int = _FIRST_PAUSE
    waited: int = 0
    asked_for: int = 0
    draft: Draft = NO_DRAFT


@dataclass(slots=True)
class _Tally:
    """Rounds of one choice, what was expected of them and what came of it."""

    rounds: int = 0
    expected_tokens: float = 0.0
    tokens: int = 0
    seconds: float = 0.0


class Controller:
    """Maximises tokens per second, round by round; a `Policy`.

    A round that yields t tokens in s seconds is worth t - r * s, where r is the rate at which
    tokens have come lately: the seconds it takes could have yielded r * s tokens elsewhere. That
    is the choice which maximises the rate over many rounds. Plain decoding, one token for C(1), is
    always among the choices, and r is never taken below its rate.

    Estimates can be wrong, so losses are bounded whatever they say: a round that would lose more
    than the answer's stake if everything were rejected is not played.
    """

    def __init__(
        self,
        cheap: Sequence[Drafter],
        costly: Sequence[CostlyDrafter] = (),
        *,
        cost: CostCurve,
        draft_max: int = 16,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """cheap: drafters without a model, asked every round. costly: those with one.

        cost: shared with whoever stores it. clock: seconds, to time proposals.
        """
        cost.widen(1 + draft_max)
        self.cost = cost
        self._clock = clock
        self.draft_max = draft_max
        self._cheap = [_Cheap(drafter) for drafter in cheap]
        self._costly = [_Costly(drafter, Prospect(draft_max)) for drafter in costly]
        self._tokens = 0.0
        self._seconds = 0.0
        self._stake = Stake()
        self._drafting_s = 0.0
        self._expected = 1.0
        self._tallies: dict[str, _Tally] = {}

    def begin(self, tokens: Sequence[int]) -> None:
        for cheap in self._cheap:
            cheap.drafter.begin(tokens)
            cheap.draft = NO_DRAFT
        for costly in self._costly:
            costly.drafter.begin(tokens)
            costly.draft = NO_DRAFT
        self._stake.begin()

    @property
    def rate(self) -> float:
        """Tokens per second lately, at least that of plain decoding."""
        plain = 1.0 / self.cost.table[1]
        return max(plain, self._tokens / self._seconds) if self._seconds else plain

    def propose(self, max_tokens: int) -> Draft:
        table = self.cost.table
        rate = self.rate
        limit = min(max_tokens, self.draft_max)
        most = self._stake.affordable(limit, table)
        self._drafting_s = 0.0
        plain = 1.0 - rate * table[1]
        best, best_draft, best_tokens = plain + _MARGIN, NO_DRAFT, 1.0
        for cheap in self._cheap:
            if best_draft.tokens and best_tokens > _ENOUGH * (1 + most):
                cheap.draft = NO_DRAFT
                continue
            # Also a draft that cannot be afforded is worth comparing with what will come.
            draft = cheap.draft = cheap.drafter.propose(limit)
            if not draft.tokens:
                continue
            probabilities = cheap.calibration(draft.source).probabilities(draft)
            length, tokens, worth = _best_length(probabilities, table, rate)
            if length > most:
                if worth > best:
                    self._stake.rehearse(draft.tokens[:length], table[1 + length])
                length, tokens, worth = _best_length(probabilities[:most], table, rate)
            if length and worth > best:
                best, best_draft, best_tokens = worth, draft.first(length), tokens
        for costly in self._costly:
            length = self._length_to_ask(costly, most, best)
            if not length:
                if limit and not best_draft.tokens and self._may_question(costly):
                    draft = self._ask(costly, 1)
                    # A drawn token tells nothing until it is verified: what the target says
                    # itself seldom equals it, however often it would be kept.
                    if draft.is_drawn and most:
                        best_draft, best_tokens = draft, 1.0 + sum(draft.confidences)
                        break
                continue
            draft = self._ask(costly, length)
            if not draft.tokens:
                continue
            if draft.is_drawn:
                # To choose among drawn tokens by what was drawn would change their distribution.
                chances = costly.calibration.probabilities(draft)
                best_draft, best_tokens = draft, 1.0 + sum(accumulate(chances, mul))
                break
            # Its time is spent; what is left to choose is how much of it to verify.
            probabilities = costly.calibration.probabilities(draft)
            kept, tokens, worth = _best_length(probabilities, table, rate)
            if kept and (worth > best or not best_draft.tokens):
                best, best_draft, best_tokens = worth, draft.first(kept), tokens
        self._expected = best_tokens
        return best_draft

    def observe(self, outcome: Round) -> None:
        target_s = outcome.verify_s + outcome.rollback_s
        self.cost.observe(1 + outcome.drafted, target_s)
        seconds = outcome.propose_s + target_s
        self._tokens = self._tokens * _RATE_KEPT + len(outcome.tokens)
        self._seconds = self._seconds * _RATE_KEPT + seconds
        self._settle(outcome)
        self._count(outcome, seconds)
        kept = outcome.tokens
        for cheap in self._cheap:
            # Whatever was followed, what this drafter said can be compared with what came.
            if cheap.draft.tokens:
                cheap.calibration(cheap.draft.source).learn(cheap.draft, kept)
            cheap.draft = NO_DRAFT
            cheap.drafter.observe(kept, outcome.accepted)
        for costly in self._costly:
            if costly.asked_for:
                costly.prospect.learn(costly.draft, costly.asked_for, kept)
                costly.calibration.learn(costly.draft, kept)
                right = costly.draft.tokens[:1] == kept[:1]
                costly.pause = _FIRST_PAUSE if right else min(2 * costly.pause, _LONGEST_PAUSE)
                costly.draft, costly.asked_for = NO_DRAFT, 0
            costly.waited += 1
            costly.drafter.observe(kept, outcome.accepted)
        # A round for which nothing was asked of us must not count these again.
        self._drafting_s, self._expected = 0.0, 1.0

    def explain(self) -> dict[str, Any]:
        """JSON-able: rounds by choice, expected and real gain over plain decoding, C(n)."""
        plain_s = self.cost.table[1]
        choices = {}
        for name, tally in self._tallies.items():
            choices[name] = {
                "rounds": tally.rounds,
                "expected_tokens_per_round": tally.expected_tokens / tally.rounds,
                "tokens_per_round": tally.tokens / tally.rounds,
                "expected_gain": _gain(tally.expected_tokens, plain_s, tally.seconds),
                "gain": _gain(tally.tokens, plain_s, tally.seconds),
            }
        return {
            "choices": choices,
            "rate": self.rate,
            "plain_rate": 1.0 / plain_s,
            "cost_ms": [round(1000.0 * seconds, 3) for seconds in self.cost.table[1:]],
        }

    def _settle(self, outcome: Round) -> None:
        """Judged by C(n), not by this round's time, so that noise is neither gain nor loss."""
        plain_s = self.cost.table[1]
        lost_s = self._drafting_s
        if outcome.drafted:
            lost_s += self.cost.seconds(1 + outcome.drafted) - len(outcome.tokens) * plain_s
        self._stake.settle(lost_s, plain_s)
        self._stake.hear(outcome.tokens, plain_s)

    def _length_to_ask(self, costly: _Costly, most: int, best: float) -> int:
        """How many tokens to ask a dear drafter for; 0 when that does not pay."""
        table = self.cost.table
        token_s = self._token_s(costly)
        bound = self._stake.held * table[1]
        while most and table[1 + most] - table[1] + most * token_s > bound:
            most -= 1
        length, worth = _promise(costly.prospect, most, token_s, table, self.rate)
        return length if worth > best else 0

    def _may_question(self, costly: _Costly) -> bool:
        """Whether to ask for one token that is not verified, only to see if it will be right."""
        return costly.waited >= costly.pause and self._token_s(costly) <= (
            self._stake.held * self.cost.table[1]
        )

    def _token_s(self, costly: _Costly) -> float:
        return costly.token_s or _GUESSED_TOKEN_SHARE * self.cost.table[1]

    def _ask(self, costly: _Costly, length: int) -> Draft:
        drafter, table = costly.drafter, self.cost.table
        missing = drafter.n_missing
        # One more token pays while the chance that it is kept exceeds what its time is worth.
        slope = (table[-1] - table[1]) / (len(table) - 2)
        drafter.stop_below = min(0.95, self.rate * (self._token_s(costly) + slope))
        begun = self._clock()
        draft = drafter.propose(length)
        spent = self._clock() - begun
        self._drafting_s += spent
        costly.waited = 0
        costly.asked_for = length
        costly.draft = draft
        # Catching up on a long stretch is not the price of a token.
        if missing <= self.draft_max + 1:
            measured = spent / max(1, len(draft.tokens))
            kept = _TIME_KEPT if costly.token_s else 0.0
            costly.token_s = costly.token_s * kept + measured * (1.0 - kept)
        return draft

    def _count(self, outcome: Round, seconds: float) -> None:
        tally = self._tallies.get(outcome.source)
        if tally is None:
            tally = self._tallies[outcome.source] = _Tally()
        tally.rounds += 1
        tally.expected_tokens += self._expected
        tally.tokens += len(outcome.tokens)
        tally.seconds += seconds


def _gain(tokens: float, plain_s: float, seconds: float) -> float:
    """How many times faster than plain decoding `tokens` came in `seconds`."""
    return tokens * plain_s / seconds if seconds else 1.0


def _best_length(
    probabilities: Sequence[float], table: Sequence[float], rate: float
) -> tuple[int, float, float]:
    """Length, expected tokens and worth of the best prefix of a draft; length 0 is plain."""
    best_length, best_tokens, best = 0, 1.0, 1.0 - rate * table[1]
    tokens = reached = 1.0
    for length, probability in enumerate(probabilities, 1):
        reached *= probability
        tokens += reached
        worth = tokens - rate * table[length + 1]
        if worth > best:
            best_length, best_tokens, best = length, tokens, worth
    return best_length, best_tokens, best


def _promise(
    prospect: Prospect, most: int, token_s: float, table: Sequence[float], rate: float
) -> tuple[int, float]:
    """The best length to ask a dear drafter for, and what it is expected to be worth."""
    best_length, best = 0, 1.0 - rate * table[1]
    # One pass of the draft is spent also when it proposes nothing.
    tokens, seconds, before = 1.0, table[1] + token_s, 1.0
    for length, (proposed, accepted) in enumerate(prospect.forecast(most), 1):
        tokens += accepted
        seconds += proposed * (table[length + 1] - table[length])
        if length > 1:
            seconds += before * token_s
        before = proposed
        worth = tokens - rate * seconds
        if worth > best:
            best_length, best = length, worth
    return best_length, best
