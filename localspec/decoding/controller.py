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
from localspec.decoding.rest import Rest
from localspec.decoding.stake import Stake
from localspec.decoding.worth import Choice, Terms

_RATE_KEPT = 0.97
"""The rate of decoding is that of about the last thirty rounds."""
_MARGIN = 0.03
"""Tokens per round that a draft must promise beyond plain decoding, against noise."""
_FEAR = 0.25
"""Over the stake that is left it is `Terms.fear`."""
_TIME_KEPT = 0.9
_ENOUGH = 0.7
"""Share of the possible tokens that makes asking further drafters a waste of time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 4, 48
"""Rounds between two trials of a dear drafter that promises nothing; the pause doubles after each
wrong answer and starts again after a right one."""
_TRIAL = 4
"""Tokens of a trial; it stops earlier where it is not sure."""
_FIRST_PURSE, _PURSE_SHARE = 0.5, 0.01
"""Plain passes that an answer may spend on trials, at first and for each round. It is little: a
drafter whose tokens are cheap enough promises a gain without a trial."""
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

    @property
    def draws(self) -> bool:
        """Whether its tokens are drawn; then they are verified as they stand."""
        ...

    def propose(self, max_tokens: int, after: Sequence[int] = ()) -> Draft:
        """As `Drafter.propose`, behind tokens that another drafter guessed this round."""
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
    unasked: int = 0
    """Rounds before this request in which it was not asked."""
    after: tuple[int, ...] = ()
    """Guesses of another drafter that it was asked to go on behind."""
    draft: Draft = NO_DRAFT
    heard: list[int] = field(default_factory=list)
    """What the target has said since, over `after` and `draft`; of a draft that was not verified
    it takes some rounds."""

    def is_judged(self) -> bool:
        """Whether what was heard tells all about the draft."""
        said = self.after + self.draft.tokens
        heard = self.heard[: len(said)]
        return len(heard) == len(said) or tuple(heard) != said[: len(heard)]


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
        self._rest = Rest()
        self._purse = _FIRST_PURSE
        self._on_trial = False
        self._drafting_s = 0.0
        self._expected = 1.0
        self._tallies: dict[str, _Tally] = {}

    def begin(self, tokens: Sequence[int]) -> None:
        self._end_rest()
        self._rest.begin()
        for cheap in self._cheap:
            cheap.drafter.begin(tokens)
            cheap.draft = NO_DRAFT
        for costly in self._costly:
            costly.drafter.begin(tokens)
            costly.draft, costly.asked_for = NO_DRAFT, 0
            costly.heard.clear()
        self._stake.begin()
        self._purse = _FIRST_PURSE

    @property
    def rate(self) -> float:
        """Tokens per second lately, at least that of plain decoding."""
        plain = 1.0 / self.cost.table[1]
        return max(plain, self._tokens / self._seconds) if self._seconds else plain

    def propose(self, max_tokens: int) -> Draft:
        if self._rest.begins_round():
            return NO_DRAFT
        self._end_rest()
        table = self.cost.table
        rate = self.rate
        limit = min(max_tokens, self.draft_max)
        most = self._stake.affordable(limit, table)
        terms = Terms(table, rate, _FEAR / self._stake.wealth)
        self._drafting_s, self._on_trial = 0.0, False
        best, best_draft, best_chances = Choice(0, 1.0, terms.plain + _MARGIN), NO_DRAFT, []
        for cheap in self._cheap:
            if best.length and best.tokens > _ENOUGH * (1 + most):
                cheap.draft = NO_DRAFT
                continue
            # Also a draft that cannot be afforded is worth comparing with what will come.
            draft = cheap.draft = cheap.drafter.propose(limit)
            if not draft.tokens:
                continue
            chances = cheap.calibration(draft.source).probabilities(draft)
            choice = terms.best_length(chances)
            if choice.length > most:
                if choice.worth > best.worth:
                    tokens = draft.tokens[: choice.length]
                    self._stake.rehearse(tokens, table[1 + choice.length])
                choice = terms.best_length(chances[:most])
            if choice.length and choice.worth > best.worth:
                best, best_draft = choice, draft.first(choice.length)
                best_chances = chances[: choice.length]
        for costly in self._costly:
            request, after = self._request(costly, most, terms, best, best_chances)
            if not request:
                if best.length or not self._may_try(costly, most):
                    continue
                self._on_trial = True
                request = max(1, self._affordable(min(most, _TRIAL), 0, self._token_s(costly)))
            head = best_draft if after else NO_DRAFT
            draft = self._ask(costly, request, head.tokens)
            if not draft.tokens:
                continue
            chances = costly.calibration.probabilities(draft)
            if after:
                draft, chances = head.followed_by(draft), best_chances + chances
            if draft.is_drawn:
                # To choose among drawn tokens by what was drawn would change their distribution.
                tokens_expected = 1.0 + sum(accumulate(chances, mul))
                best_draft, best = draft, Choice(len(draft), tokens_expected, 0.0)
                break
            # Its time is spent; what is left to choose is how much of it to verify.
            choice = terms.best_length(chances[:most])
            if choice.length and (choice.worth > best.worth or not best.length):
                best, best_draft = choice, draft.first(choice.length)
                best_chances = chances[: choice.length]
        self._expected = best.tokens
        return best_draft

    def observe(self, outcome: Round) -> None:
        target_s = outcome.verify_s + outcome.rollback_s
        seconds = outcome.propose_s + target_s
        self._tokens = self._tokens * _RATE_KEPT + len(outcome.tokens)
        self._seconds = self._seconds * _RATE_KEPT + seconds
        if self._rest.is_on:
            self._rest.count(target_s)
        else:
            self._take_in(outcome, target_s)
        kept = outcome.tokens
        for cheap in self._cheap:
            # Whatever was followed, what this drafter said can be compared with what came.
            if cheap.draft.tokens:
                cheap.calibration(cheap.draft.source).learn(cheap.draft, kept)
            cheap.draft = NO_DRAFT
            cheap.drafter.observe(kept, outcome.accepted)
        for costly in self._costly:
            if costly.asked_for:
                costly.heard += kept
                if costly.is_judged():
                    self._learn_asked(costly)
            costly.waited += 1
            costly.drafter.observe(kept, outcome.accepted)
        # A round for which nothing was asked of us must not count these again.
        self._drafting_s, self._expected, self._on_trial = 0.0, 1.0, False

    @property
    def is_resting(self) -> bool:
        """Whether nobody was asked in the present round, since asking had long been in vain."""
        return self._rest.is_on

    def explain(self) -> dict[str, Any]:
        """JSON-able: rounds by choice, expected and real gain over plain decoding, C(n)."""
        self._end_rest()
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

    def _take_in(self, outcome: Round, target_s: float) -> None:
        """Learn from a round in which drafters were asked."""
        self.cost.observe(1 + outcome.drafted, target_s)
        if not self._drafting_s:
            in_vain = not outcome.drafted and not self._stake.is_rehearsing
            self._rest.asked(outcome.propose_s, self.cost.table[1], in_vain=in_vain)
        self._settle(outcome)
        self._count(outcome, outcome.propose_s + target_s)

    def _end_rest(self) -> None:
        """Learn from all rounds of the rest at once."""
        rounds, seconds = self._rest.take()
        if not rounds:
            return
        self.cost.observe(1, seconds / rounds)
        self._purse += rounds * _PURSE_SHARE
        self._stake.rest(rounds)
        tally = self._tally(NO_DRAFT.source)
        tally.rounds += rounds
        tally.expected_tokens += rounds
        tally.tokens += rounds
        tally.seconds += seconds

    def _settle(self, outcome: Round) -> None:
        """Judged by C(n), not by this round's time, so that noise is neither gain nor loss."""
        plain_s = self.cost.table[1]
        lost_s = self._drafting_s
        if outcome.drafted:
            lost_s += self.cost.seconds(1 + outcome.drafted) - len(outcome.tokens) * plain_s
        self._purse += _PURSE_SHARE
        if self._on_trial and lost_s > 0.0:
            self._purse -= lost_s / plain_s
            lost_s = 0.0
        self._stake.settle(lost_s, plain_s)
        self._stake.hear(outcome.tokens, plain_s)

    def _learn_asked(self, costly: _Costly) -> None:
        n_after = len(costly.after)
        reached = tuple(costly.heard[:n_after]) == costly.after
        # Behind a wrong guess nothing that it said can be judged.
        heard = costly.heard[n_after:] if reached else []
        costly.prospect.learn(costly.draft, costly.asked_for, heard, waited=costly.unasked)
        costly.calibration.learn(costly.draft, heard)
        if reached:
            right = bool(heard) and list(costly.draft.tokens[:1]) == heard[:1]
            costly.pause = _FIRST_PAUSE if right else min(2 * costly.pause, _LONGEST_PAUSE)
        costly.draft, costly.asked_for, costly.after = NO_DRAFT, 0, ()
        costly.heard.clear()

    def _request(
        self, costly: _Costly, most: int, terms: Terms, best: Choice, chances: Sequence[float]
    ) -> tuple[int, bool]:
        """How many tokens to ask a dear drafter for, 0 when that does not pay; and whether behind
        the best draft so far, whose chances are given, or in its place."""
        forecast = costly.prospect.forecast(most)
        token_s = self._token_s(costly)
        catch_up_s = self._catch_up_s(costly, 0)
        alone = self._affordable(most, 0, token_s)
        found = terms.best_request(forecast[:alone], token_s, catch_up_s)
        request, after = (found.length, False) if found.worth > best.worth else (0, False)
        if best.length and most > best.length:
            more = self._affordable(most, best.length, token_s)
            behind = terms.best_request(
                forecast[:more], token_s, self._catch_up_s(costly, best.length), chances
            )
            if behind.length and behind.worth > max(best.worth, found.worth):
                request, after = behind.length, True
        return request, after

    def _affordable(self, most: int, behind: int, token_s: float) -> int:
        """Tokens of a dear drafter, behind so many others, that the stake allows."""
        table = self.cost.table
        bound = table[1] * (1.0 + self._stake.held)
        length = most - behind
        while length > 0 and table[1 + behind + length] + length * token_s > bound:
            length -= 1
        return length

    def _catch_up_s(self, costly: _Costly, behind: int) -> float:
        """Seconds to evaluate what it has missed, beyond the one token of its first pass; its
        passes grow with their width as the target's do."""
        width = max(1, costly.drafter.n_missing + behind)
        return self._token_s(costly) * (self.cost.seconds(width) / self.cost.table[1] - 1.0)

    def _may_try(self, costly: _Costly, most: int) -> bool:
        """Whether to try a drafter that promises nothing, only to see if that is still so."""
        if costly.waited < costly.pause or (costly.drafter.draws and not most):
            return False
        price_s = self._token_s(costly) + self._catch_up_s(costly, 0)
        return price_s <= self._purse * self.cost.table[1]

    def _token_s(self, costly: _Costly) -> float:
        return costly.token_s or _GUESSED_TOKEN_SHARE * self.cost.table[1]

    def _ask(self, costly: _Costly, length: int, after: tuple[int, ...] = ()) -> Draft:
        if costly.asked_for:
            self._learn_asked(costly)
        drafter, table = costly.drafter, self.cost.table
        missing = drafter.n_missing + len(after)
        # One more token pays while the chance that it is kept exceeds what its time is worth.
        slope = (table[-1] - table[1]) / (len(table) - 2)
        drafter.stop_below = min(0.95, self.rate * (self._token_s(costly) + slope))
        begun = self._clock()
        draft = drafter.propose(length, after) if after else drafter.propose(length)
        spent = self._clock() - begun
        self._drafting_s += spent
        costly.unasked, costly.waited = costly.waited, 0
        costly.asked_for = length
        costly.after = after
        costly.draft = draft
        # Catching up on a long stretch is not the price of a token.
        if missing <= self.draft_max + 1:
            first = self.cost.seconds(max(1, missing)) / table[1]
            measured = spent / (max(1, len(draft.tokens)) - 1 + first)
            kept = _TIME_KEPT if costly.token_s else 0.0
            costly.token_s = costly.token_s * kept + measured * (1.0 - kept)
        return draft

    def _count(self, outcome: Round, seconds: float) -> None:
        then = outcome.draft.then
        name = f"{outcome.source}+{then}" if then else outcome.source
        tally = self._tally(name)
        tally.rounds += 1
        tally.expected_tokens += self._expected
        tally.tokens += len(outcome.tokens)
        tally.seconds += seconds

    def _tally(self, name: str) -> _Tally:
        found = self._tallies.get(name)
        if found is None:
            found = self._tallies[name] = _Tally()
        return found


def _gain(tokens: float, plain_s: float, seconds: float) -> float:
    """How many times faster than plain decoding `tokens` came in `seconds`."""
    return tokens * plain_s / seconds if seconds else 1.0
