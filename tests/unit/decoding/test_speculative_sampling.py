"""Whole rounds with drawn drafts: every answer comes out with the target's own probability.

Not by counting: all ways the dice can fall are gone through, whatever stops a draft.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from localspec.decoding import loop as loop_module
from localspec.decoding.chain import BestDrafter, ChainDrafter
from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.distribution import Dice
from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter, Policy, Round
from localspec.decoding.sampling import SamplingSettings
from tests.support.chance import RandomDraft, RandomTarget, all_outcomes
from tests.support.drafters import ScriptedDrafter

PROMPT = [1, 2]
DRAWN = SamplingSettings(temp=0.8)
MakePolicy = Callable[[Dice], Policy]


@pytest.fixture(autouse=True)
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided by time must fall alike in every repetition."""
    monkeypatch.setattr(loop_module, "perf_counter", lambda: 0.0)


def model(dice: Dice, *, p_min: float = 0.0, stop_below: float = 0.0) -> ModelDrafter:
    drafter = ModelDrafter(RandomDraft(dice), n_vocab=3, p_min=p_min)
    drafter.stop_below = stop_below
    drafter.sample_as(DRAWN)
    return drafter


class GuessedThenDrawn:
    """A sure token, and behind it what the draft model draws."""

    def __init__(self, drafter: ModelDrafter, sure: Sequence[int]) -> None:
        self._drafter = drafter
        self._sure = tuple(sure)

    def begin(self, tokens: Sequence[int]) -> None:
        self._drafter.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        sure = Draft(self._sure[:max_tokens], "ngram", match_length=3)
        left = max_tokens - len(sure)
        return sure.followed_by(self._drafter.propose(left, after=sure.tokens))

    def observe(self, outcome: Round) -> None:
        self._drafter.observe(outcome.tokens, outcome.accepted)


class DropsShortDrafts(FixedPolicy):
    """What must not be done: whether a drawn token is verified depends on how it fell."""

    def propose(self, max_tokens: int) -> Draft:
        draft = super().propose(max_tokens)
        return draft if len(draft) >= 2 else NO_DRAFT


class SureOfOne(ScriptedDrafter):
    """One token at a time, with confidence."""

    def propose(self, max_tokens: int) -> Draft:
        draft = super().propose(min(1, max_tokens))
        return replace(draft, confidences=(0.95,) * len(draft), match_length=4)


def controller(dice: Dice, *cheap: Drafter) -> Policy:
    times = itertools.count()
    costs = CostCurve({1: 1.0, 2: 1.05, 4: 1.1}, max_width=8)
    drafter = model(dice, p_min=0.3)
    return Controller(cheap, [drafter], cost=costs, clock=lambda: 0.01 * next(times))


POLICIES: dict[str, MakePolicy] = {
    "plain": lambda dice: PlainPolicy(),
    "fixed": lambda dice: FixedPolicy(model(dice), 2),
    "p_min": lambda dice: FixedPolicy(model(dice, p_min=0.6), 3),
    "stop_below": lambda dice: FixedPolicy(model(dice, stop_below=0.5), 3),
    "draft_min": lambda dice: FixedPolicy(model(dice, p_min=0.6), 3, 2),
    "guessed then drawn": lambda dice: GuessedThenDrawn(model(dice), [0]),
    "guessed then drawn, p_min": lambda dice: GuessedThenDrawn(model(dice, p_min=0.6), [2]),
    "chain": lambda dice: FixedPolicy(ChainDrafter([ScriptedDrafter([2]), model(dice)]), 2),
    "best": lambda dice: FixedPolicy(BestDrafter([ScriptedDrafter([2]), model(dice)]), 2),
    "controller": controller,
    "controller with guesses": lambda dice: controller(dice, SureOfOne([0, 1, 2])),
}


def laws_of(
    policy: MakePolicy, *, length: int = 3, draft_min: int = 0, ends: bool = False
) -> tuple[dict[tuple[int, ...], float], float]:
    """Every answer with its probability, and the drafted tokens to expect in it."""
    drafted = 0.0

    def answer(dice: Dice) -> tuple[int, ...]:
        nonlocal drafted
        target = RandomTarget(dice, ends=ends)
        target.evaluate(PROMPT[:-1])
        loop = SpeculativeLoop(target, policy(dice), draft_min=draft_min)
        loop.start(PROMPT)
        tokens: list[int] = []
        while len(tokens) < length and not (tokens and target.is_end(tokens[-1])):
            outcome = loop.step(length - len(tokens))
            tokens.extend(outcome.tokens)
            drafted += outcome.drafted
            assert target.held == [*PROMPT, *tokens][:-1]
        return tuple(tokens)

    return all_outcomes(answer), drafted


@pytest.mark.parametrize("ends", [False, True], ids=["endless", "with ends"])
@pytest.mark.parametrize("name", POLICIES)
def test_every_answer_has_the_targets_probability(name: str, ends: bool) -> None:
    plain, _ = laws_of(POLICIES["plain"], ends=ends)
    found, drafted = laws_of(POLICIES[name], ends=ends)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found == pytest.approx(plain, abs=1e-12)
    assert (drafted > 0) == (name != "plain")


def test_the_controller_lets_drawn_tokens_follow_guesses_and_stand_alone() -> None:
    """The test above reaches both."""

    def first_draft(dice: Dice, *cheap: Drafter) -> tuple[str, str]:
        policy = controller(dice, *cheap)
        policy.begin(PROMPT)
        draft = policy.propose(3)
        assert draft.is_drawn
        return draft.source, draft.then

    assert set(all_outcomes(first_draft)) == {("model", "")}
    assert set(all_outcomes(lambda dice: first_draft(dice, SureOfOne([0])))) == {
        ("scripted", "model")
    }


def test_the_loops_own_draft_min_drops_no_drawn_draft() -> None:
    plain, _ = laws_of(POLICIES["plain"])
    found, _ = laws_of(POLICIES["p_min"], draft_min=2)
    assert found == pytest.approx(plain, abs=1e-12)


def test_dropping_drawn_drafts_for_their_length_would_be_noticed() -> None:
    """The tests above can fail: this is the mistake that they are there to find."""
    plain, _ = laws_of(POLICIES["plain"])
    biased, _ = laws_of(lambda dice: DropsShortDrafts(model(dice, p_min=0.6), 3))
    assert sum(biased.values()) == pytest.approx(1.0)
    assert max(abs(biased.get(tokens, 0.0) - p) for tokens, p in plain.items()) > 0.01


def test_each_row_is_asked_for_once_and_none_behind_a_rejection() -> None:
    def one_round(dice: Dice) -> tuple[tuple[int, ...], int]:
        target = RandomTarget(dice)
        target.evaluate(PROMPT[:-1])
        loop = SpeculativeLoop(target, FixedPolicy(model(dice), 3))
        loop.start(PROMPT)
        outcome = loop.step(4)
        return tuple(target.rows_asked), outcome.accepted

    rounds = all_outcomes(one_round)
    assert {accepted for _, accepted in rounds} == {0, 1, 2, 3}
    assert all(rows == tuple(range(accepted + 1)) for rows, accepted in rounds)
