"""Choices of the controller, round by round."""

from __future__ import annotations

import json

import pytest

from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Round
from tests.support.controller_simulation import Clock, SimulatedDrafter, answer_seconds

FLAT = {1: 0.010, 17: 0.011}
STEEP = {1: 0.010, 2: 0.025, 17: 0.250}


def controller(
    right: list[bool],
    cost: dict[int, float],
    *,
    token_s: float = 0.0,
    stated: float = 0.0,
    draft_max: int = 16,
) -> tuple[Controller, SimulatedDrafter, Clock]:
    clock = Clock()
    confidences = [stated] * len(right) if stated else ()
    drafter = SimulatedDrafter(right, clock, "simulated", token_s, confidences)
    curve = CostCurve(cost)
    if token_s:
        made = Controller([], [drafter], cost=curve, draft_max=draft_max, clock=clock)
    else:
        made = Controller([drafter], cost=curve, draft_max=draft_max, clock=clock)
    made.begin([0])
    return made, drafter, clock


def play(made: Controller, draft: Draft, place: int, accepted: int, cost: dict[int, float]) -> int:
    tokens = tuple(range(place, place + accepted + 1))
    seconds = CostCurve(cost).seconds(1 + len(draft))
    made.observe(Round(tokens, accepted, len(draft), draft.source, draft, 0.0, seconds, 0.0))
    return place + len(tokens)


def test_a_sure_draft_is_taken_whole_where_width_costs_nothing() -> None:
    made, _, _ = controller([True] * 100, FLAT, stated=0.97)
    assert len(made.propose(16)) == 16


def test_the_same_draft_is_left_where_width_costs_too_much() -> None:
    made, _, _ = controller([True] * 100, STEEP, stated=0.97)
    assert made.propose(16) is NO_DRAFT


def test_a_doubtful_draft_is_cut_where_it_no_longer_pays() -> None:
    made, drafter, _ = controller([True] * 100, {1: 0.010, 17: 0.030}, stated=0.6)
    assert 0 < len(made.propose(16)) < 8
    assert drafter.asked[0] > len(made.propose(16))


def test_neither_draft_max_nor_the_wanted_tokens_are_exceeded() -> None:
    made, _, _ = controller([True] * 100, FLAT, stated=0.97, draft_max=5)
    assert len(made.propose(16)) == 5
    assert len(made.propose(3)) == 3


def test_plain_rounds_teach_what_a_draft_would_have_won() -> None:
    """It proposes nothing while the drafter looks bad, sees that it is right, and begins."""
    cost = {1: 0.010, 17: 0.050}
    made, _, _ = controller([True] * 400, cost, stated=0.15)
    place, plain_rounds = 1, 0
    while not (draft := made.propose(16)).tokens:
        place = play(made, draft, place, 0, cost)
        plain_rounds += 1
        assert plain_rounds < 100
    assert plain_rounds > 1


def test_a_wrong_drafter_is_given_up_within_a_few_rounds() -> None:
    cost = {1: 0.010, 17: 0.050}
    made, _, _ = controller([False] * 400, cost, stated=0.9)
    place, drafted_in = 1, []
    for number in range(100):
        draft = made.propose(16)
        if draft.tokens:
            drafted_in.append(number)
        place = play(made, draft, place, 0, cost)
    assert 1 <= len(drafted_in) <= 12
    assert drafted_in[-1] < 40


def test_an_answer_can_lose_no_more_than_its_stake_to_rejected_drafts() -> None:
    """Every draft is rejected although the drafter swears by it, answer after answer."""
    cost = {1: 0.010, 17: 0.100}
    made, _, _ = controller([False] * 400, cost, stated=0.99)
    curve = CostCurve(cost)
    for _ in range(5):
        made.begin([0])
        lost = 0.0
        for place in range(1, 60):
            draft = made.propose(16)
            lost += curve.seconds(1 + len(draft)) - curve.seconds(1)
            play(made, draft, place, 0, cost)
        assert lost <= 0.010 * (1.2 + 0.02 * 60) + 1e-9


def test_a_dear_drafter_is_not_asked_when_it_was_always_wrong() -> None:
    cost = {1: 0.010, 17: 0.020}
    made, drafter, clock = controller([False] * 2000, cost, token_s=0.005)
    place = 1
    for _ in range(400):
        place = play(made, made.propose(16), place, 0, cost)
    assert len(drafter.asked) < 25
    assert clock.seconds < 0.03 * 400 * 0.010


def test_a_dear_drafter_that_became_good_is_found_again() -> None:
    cost = {1: 0.010, 17: 0.012}
    right = [False] * 200 + [True] * 800
    made, drafter, clock = controller(right, cost, token_s=0.001)
    seconds = answer_seconds(
        made, lambda width: CostCurve(cost).seconds(width) / 0.010, clock, 1, 900
    )
    assert seconds < 0.65 * 900 * 0.010
    assert max(drafter.asked[-10:]) > 4


def test_the_most_promising_of_several_drafters_is_taken() -> None:
    clock = Clock()
    good = SimulatedDrafter([True] * 300, clock, "good")
    bad = SimulatedDrafter([False] * 300, clock, "bad")
    made = Controller([bad, good], cost=CostCurve(FLAT), clock=clock)
    answer_seconds(made, lambda width: 1.0 + 0.01 * width, clock, 1, 250)
    choices = made.explain()["choices"]
    assert choices["good"]["rounds"] > 3 * choices.get("bad", {"rounds": 0})["rounds"]


def test_the_explanation_is_json_and_adds_up() -> None:
    made, _, clock = controller([place % 5 > 0 for place in range(400)], FLAT, stated=0.8)
    answer_seconds(made, lambda width: 1.0 + 0.01 * width, clock, 1, 300)
    explained = json.loads(json.dumps(made.explain()))
    simulated = explained["choices"]["simulated"]
    assert sum(c["rounds"] * c["tokens_per_round"] for c in explained["choices"].values()) == (
        pytest.approx(299)
    )
    assert simulated["gain"] > 2.0
    assert simulated["expected_tokens_per_round"] == pytest.approx(
        simulated["tokens_per_round"], rel=0.4
    )
    assert len(explained["cost_ms"]) == 17
    assert explained["rate"] > explained["plain_rate"]


def test_drafts_may_be_longer_than_the_probed_widths() -> None:
    made, _, clock = controller([True] * 400, FLAT, stated=0.99, draft_max=40)
    assert len(made.propose(40)) == 40
    # What comes of it is learned, too.
    play(made, made.propose(40), 1, 40, {**FLAT, 41: 0.012})
    assert len(made.explain()["cost_ms"]) == 41
    assert clock.seconds == 0.0


def test_a_round_that_asks_nothing_is_not_charged_for_the_one_before() -> None:
    cost = {1: 0.010, 17: 0.012}
    made, _, _ = controller([False] * 400, cost, token_s=0.004)
    play(made, made.propose(8), 1, 0, cost)
    held = made._stake.held
    play(made, NO_DRAFT, 2, 0, cost)
    assert made._stake.held > held


def test_without_drafters_it_is_plain_decoding() -> None:
    made = Controller([], cost=CostCurve(FLAT))
    made.begin([0])
    assert made.propose(8) is NO_DRAFT


def test_a_round_goes_on_with_the_draft_model_where_the_cheap_draft_ends() -> None:
    clock = Clock()
    cheap = Few(SimulatedDrafter([True] * 400, clock, "ngram", 0.0, [0.97] * 400), 3)
    dear = SimulatedDrafter([True] * 400, clock, "model", 0.0005, [0.95] * 400)
    made = Controller([cheap], [dear], cost=CostCurve(FLAT), clock=clock)
    made.begin([0])
    place, drafts = 1, []
    for _ in range(20):
        draft = made.propose(16)
        drafts.append(draft)
        place = play(made, draft, place, len(draft), FLAT)
    last = drafts[-1]
    assert (last.source, last.then, last.n_first) == ("ngram", "model", 3)
    assert len(last) > 6
    assert "ngram+model" in made.explain()["choices"]


def test_what_a_model_says_behind_a_wrong_guess_is_not_held_against_it() -> None:
    clock = Clock()
    right = [place % 8 != 4 for place in range(900)]
    cheap = Few(SimulatedDrafter(right, clock, "ngram", 0.0, [0.9] * 900), 2)
    dear = SimulatedDrafter([True] * 900, clock, "model", 0.0005, [0.95] * 900)
    made = Controller([cheap], [dear], cost=CostCurve(FLAT), clock=clock)
    made.begin([0])
    place = 1
    followed = 0
    while place < 600:
        draft = made.propose(16)
        accepted = 0
        while accepted < len(draft) and draft.tokens[accepted] == place + accepted:
            accepted += 1
        followed += draft.source == "model" or draft.then == "model"
        place = play(made, draft, place, accepted, FLAT)
    assert followed > 30


def test_trials_of_a_dear_drafter_cost_a_small_share_whatever_was_won() -> None:
    """An n-gram drafter that wins much does not pay for a model that never wins."""
    clock = Clock()
    cost = {1: 0.010, 2: 0.014, 17: 0.040}
    cheap = SimulatedDrafter([place % 40 < 20 for place in range(2000)], clock, "ngram")
    dear = SimulatedDrafter([False] * 2000, clock, "model", 0.004, [0.7] * 2000)
    made = Controller([cheap], [dear], cost=CostCurve(cost), clock=clock)

    def curve(width: int) -> float:
        return CostCurve(cost).seconds(width) / 0.010

    seconds = answer_seconds(made, curve, clock, 1, 900)
    assert made.explain()["choices"]["ngram"]["gain"] > 1.1
    assert 0.0 < 0.004 * sum(dear.asked) < 0.02 * seconds


class Few:
    """A drafter that never proposes more than a few tokens."""

    def __init__(self, drafter: SimulatedDrafter, most: int) -> None:
        self._drafter = drafter
        self._most = most
        self.name = drafter.name
        self.begin = drafter.begin
        self.observe = drafter.observe

    def propose(self, max_tokens: int) -> Draft:
        return self._drafter.propose(min(max_tokens, self._most))
