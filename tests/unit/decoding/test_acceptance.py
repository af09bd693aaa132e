"""Estimates of acceptance: calibrated, quick to follow, forgetful."""

from __future__ import annotations

import random

import pytest

from localspec.decoding.acceptance import Calibration, Prospect
from localspec.decoding.protocols import Draft


def draft_of(length: int, confidence: float | None = None) -> Draft:
    stated = () if confidence is None else (confidence,) * length
    return Draft(tuple(range(length)), "any", stated)


def teach(calibration: Calibration, draft: Draft, chance: float, rounds: int) -> None:
    random_hits = random.Random(1)
    for _ in range(rounds):
        accepted = 0
        while accepted < len(draft) and random_hits.random() < chance:
            accepted += 1
        calibration.learn(draft, [*draft.tokens[:accepted], -1])


@pytest.mark.parametrize("confidence", [0.3, 0.95, None])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_estimates_become_what_happens_whatever_was_stated(
    confidence: float | None, chance: float
) -> None:
    calibration = Calibration()
    draft = draft_of(4, confidence)
    teach(calibration, draft, chance, 150)
    assert calibration.probabilities(draft)[0] == pytest.approx(chance, abs=0.15)


def test_before_anything_is_known_a_stated_confidence_counts_with_caution() -> None:
    calibration = Calibration()
    sure, unsure = (calibration.probabilities(draft_of(1, stated))[0] for stated in (0.9, 0.4))
    assert 0.75 < sure < 0.9
    assert 0.2 < unsure < 0.4


def test_a_few_surprises_lower_all_of_a_drafters_tokens() -> None:
    calibration = Calibration()
    teach(calibration, draft_of(4, 0.95), 1.0, 30)
    before = calibration.probabilities(draft_of(1, 0.75))[0]
    for _ in range(6):
        calibration.learn(draft_of(4, 0.95), [-1])
    assert calibration.probabilities(draft_of(1, 0.75))[0] < before - 0.1


def test_a_position_that_was_never_reached_is_as_good_as_the_one_before() -> None:
    calibration = Calibration()
    teach(calibration, draft_of(1), 0.9, 100)
    first, second = calibration.probabilities(draft_of(2))
    assert second == pytest.approx(first)


def test_tokens_after_the_first_wrong_one_teach_nothing() -> None:
    left, right = Calibration(), Calibration()
    left.learn(draft_of(1, 0.8), [-1])
    right.learn(draft_of(9, 0.8), [-1])
    assert left.probabilities(draft_of(1, 0.8)) == right.probabilities(draft_of(1, 0.8))


def test_a_forecast_counts_both_stopping_and_rejection() -> None:
    prospect = Prospect(8)
    for _ in range(100):
        # Asked for four it proposes two, of which the second is wrong.
        prospect.learn(Draft((1, 2), "model"), 4, [1, 9])
    forecast = prospect.forecast(4)
    assert forecast[0] == pytest.approx((1.0, 1.0), abs=0.1)
    assert forecast[1][0] == pytest.approx(1.0, abs=0.1)
    assert forecast[1][1] < 0.25
    assert forecast[2][0] == pytest.approx(0.0, abs=0.3)


def test_a_forecast_forgets() -> None:
    prospect = Prospect(8)
    for _ in range(50):
        prospect.learn(draft_of(2), 2, [9])
    assert prospect.forecast(1)[0][1] < 0.2
    for _ in range(30):
        prospect.learn(draft_of(2), 2, [0, 1, 9])
    assert prospect.forecast(2)[1][1] > 0.6


def test_a_forecast_is_no_longer_than_asked() -> None:
    assert len(Prospect(8).forecast(3)) == 3
    assert Prospect(8).forecast(0) == []


def test_old_answers_count_less_when_a_drafter_was_long_not_asked() -> None:
    def forecast(waited: int) -> float:
        prospect = Prospect(4)
        for _ in range(10):
            prospect.learn(Draft((1,), "model"), 1, (2,))
        prospect.learn(Draft((1,), "model"), 1, (1,), waited=waited)
        return prospect.forecast(1)[0][1]

    assert forecast(0) < forecast(50) < forecast(400)
