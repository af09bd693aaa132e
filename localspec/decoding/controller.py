"""`auto`: each round the drafter and the length that win the most time, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from localspec.decoding.acceptance import Calibration, Prospect
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter, Round

_RATE_KEPT = 0.97
"""The rate of decoding is that of about the last thirty rounds."""
_MARGIN = 0.03
"""Tokens per round that a draft must promise beyond plain decoding, against noise."""
_TIME_KEPT = 0.9
_EXPLORING_SHARE = 0.01
"""Share of the time that may be lost on trying a dear drafter that promises nothing."""
_FIRST_TRIALS = 3
_TRIAL_LENGTH = 3
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
    trials: int = 0
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
    """

    def __init__(
        self,
        cheap: Sequence[Drafter],
        costly: Sequence[CostlyDrafter] = (),
        *,
        cost: CostCurve,
        draft_max: int = 16,
    ) -> None:
        """cheap: drafters without a model, asked every round. costly: those with one."""
        self.cost = cost
        self.draft_max = draft_max
        self._cheap = [_Cheap(drafter) for drafter in cheap]
        self._costly = [_Costly(drafter, Prospect(draft_max)) for drafter in costly]
        self._tokens = 0.0
        self._seconds = 0.0
        self._spare = 0.0
        self._expected = 1.0
        self._tallies: dict[str, _Tally] = {}

    def begin(self, tokens: Sequence[int]) -> None:
        for cheap in self._cheap:
            cheap.drafter.begin(tokens)
            cheap.draft = NO_DRAFT
        for costly in self._costly:
            costly.drafter.begin(tokens)
            costly.draft = NO_DRAFT

    @property
    def rate(self) -> float:
        """Tokens per second lately, at least that of plain decoding."""
        plain = 1.0 / self.cost.table[1]
        return max(plain, self._tokens / self._seconds) if self._seconds else plain

    def propose(self, max_tokens: int) -> Draft:
        most = min(max_tokens, self.draft_max)
        table = self.cost.table
        rate = self.rate
        plain = 1.0 - rate * table[1]
        best, best_draft, best_tokens = plain + _MARGIN, NO_DRAFT, 1.0
        for cheap in self._cheap:
            draft = cheap.draft = cheap.drafter.propose(most)
            if not draft.tokens:
                continue
            probabilities = cheap.calibration(draft.source).probabilities(draft)
            length, tokens, worth = _best_length(probabilities, table, rate)
            if worth > best:
                best, best_draft, best_tokens = worth, draft.first(length), tokens
        for costly in self._costly:
            costly.draft, costly.asked_for = NO_DRAFT, 0
            length, worth = self._promise(costly, most, table, rate)
            if worth <= best:
                if best_draft.tokens or not self._may_try(costly, plain - worth):
                    continue
                length = min(_TRIAL_LENGTH, most)
            draft = self._ask(costly, length, rate, table)
            if not draft.tokens:
                continue
            # Its time is spent; what is left to choose is how much of it to verify.
            probabilities = costly.calibration.probabilities(draft)
            kept, tokens, worth = _best_length(probabilities, table, rate)
            if worth > best or not best_draft.tokens:
                best, best_draft, best_tokens = worth, draft.first(kept), tokens
        self._expected = best_tokens
        return best_draft

    def observe(self, outcome: Round) -> None:
        seconds = outcome.propose_s + outcome.verify_s + outcome.rollback_s
        self.cost.observe(1 + outcome.drafted, outcome.verify_s + outcome.rollback_s)
        self._tokens = self._tokens * _RATE_KEPT + len(outcome.tokens)
        self._seconds = self._seconds * _RATE_KEPT + seconds
        self._spare += _EXPLORING_SHARE * seconds
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
                costly.draft, costly.asked_for = NO_DRAFT, 0
            costly.drafter.observe(kept, outcome.accepted)

    def explain(self) -> dict[str, Any]:
        """JSON-able: rounds by choice, expected and real gain over plain decoding, C(n)."""
        plain_s = self.cost.table[1]
        choices = {}
        for name, tally in self._tallies.items():
            choices[name] = {
                "rounds": tally.rounds,
                "expected_tokens_per_round": tally.expected_tokens / tally.rounds,
                "tokens_per_round": tally.tokens / tally.rounds,
                "gain": tally.tokens * plain_s / tally.seconds if tally.seconds else 1.0,
            }
        return {
            "choices": choices,
            "rate": self.rate,
            "plain_rate": 1.0 / plain_s,
            "cost_ms": [round(1000.0 * seconds, 3) for seconds in self.cost.table[1:]],
        }

    def _promise(
        self, costly: _Costly, most: int, table: list[float], rate: float
    ) -> tuple[int, float]:
        """The best length to ask for, and what it is expected to be worth."""
        token_s = costly.token_s or _GUESSED_TOKEN_SHARE * table[1]
        best_length, best = 0, 1.0 - rate * table[1]
        # One pass of the draft is spent also when it proposes nothing.
        tokens, seconds = 1.0, table[1] + token_s
        before = 1.0
        for length, (proposed, accepted) in enumerate(costly.prospect.forecast(most), 1):
            tokens += accepted
            seconds += proposed * (table[length + 1] - table[length])
            if length > 1:
                seconds += before * token_s
            before = proposed
            worth = tokens - rate * seconds
            if worth > best:
                best_length, best = length, worth
        return best_length, best

    def _may_try(self, costly: _Costly, loss_tokens: float) -> bool:
        """Whether to ask a dear drafter that promises nothing, only to learn."""
        plain_s = self.cost.table[1]
        price = (costly.token_s or _GUESSED_TOKEN_SHARE * plain_s) * _TRIAL_LENGTH + (
            self.cost.table[min(1 + _TRIAL_LENGTH, self.draft_max)] - plain_s
        )
        if costly.trials >= _FIRST_TRIALS and self._spare < price:
            return False
        if costly.trials >= _FIRST_TRIALS:
            self._spare -= price
        return True

    def _ask(self, costly: _Costly, length: int, rate: float, table: list[float]) -> Draft:
        drafter = costly.drafter
        missing = drafter.n_missing
        token_s = costly.token_s or _GUESSED_TOKEN_SHARE * table[1]
        # One more token pays while the chance that it is kept exceeds what its time is worth.
        slope = (table[-1] - table[1]) / (len(table) - 2)
        drafter.stop_below = min(0.95, rate * (token_s + slope))
        begun = perf_counter()
        draft = drafter.propose(length)
        spent = perf_counter() - begun
        costly.trials += 1
        costly.asked_for = length
        costly.draft = draft
        # Catching up on a long stretch is not the price of a token.
        if missing <= self.draft_max + 1:
            measured = spent / max(1, len(draft.tokens))
            costly.token_s = (
                measured
                if not costly.token_s
                else costly.token_s * _TIME_KEPT + measured * (1.0 - _TIME_KEPT)
            )
        return draft

    def _count(self, outcome: Round, seconds: float) -> None:
        tally = self._tallies.get(outcome.source)
        if tally is None:
            tally = self._tallies[outcome.source] = _Tally()
        tally.rounds += 1
        tally.expected_tokens += self._expected
        tally.tokens += len(outcome.tokens)
        tally.seconds += seconds


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
