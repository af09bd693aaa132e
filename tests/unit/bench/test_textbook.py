from __future__ import annotations

import random

import pytest

from localspec.bench.textbook import (
    chance_by_position,
    expected_tokens,
    predict,
    textbook_speedup,
)
from localspec.events import Speculation


@pytest.mark.parametrize(
    ("alpha", "gamma", "cost", "expected"),
    [
        (0.0, 4, 0.0, 1.0),
        (1.0, 4, 0.0, 5.0),
        (1.0, 4, 0.25, 2.5),
        (0.5, 1, 0.0, 1.5),
        (0.8, 5, 0.1, (1 - 0.8**6) / (0.2 * 1.5)),
    ],
)
def test_the_formula_gives_known_values(
    alpha: float, gamma: float, cost: float, expected: float
) -> None:
    assert textbook_speedup(alpha, gamma, cost) == pytest.approx(expected)


def test_expected_tokens_agree_with_a_simulation() -> None:
    draw = random.Random(5)
    total = 0
    for _ in range(20_000):
        kept = 0
        while kept < 4 and draw.random() < 0.7:
            kept += 1
        total += kept + 1
    assert total / 20_000 == pytest.approx(expected_tokens(0.7, 4), rel=0.02)


def simulated(alpha: float, gamma: int, rounds: int) -> Speculation:
    draw = random.Random(11)
    accepted = [0] * gamma
    for _ in range(rounds):
        for position in range(gamma):
            if draw.random() >= alpha:
                break
            accepted[position] += 1
    return Speculation(
        "model",
        rounds=rounds,
        drafted=rounds * gamma,
        accepted=sum(accepted),
        accepted_per_position=tuple(accepted),
        drafted_per_position=(rounds,) * gamma,
        propose_s=rounds * gamma * 0.01,
    )


def test_alpha_is_found_again_from_the_counts_by_position() -> None:
    prediction = predict(simulated(0.75, 6, 20_000), plain_token_s=0.1)
    assert prediction is not None
    assert prediction.alpha == pytest.approx(0.75, abs=0.01)
    assert prediction.gamma == 6
    assert prediction.cost_ratio == pytest.approx(0.1)
    assert prediction.speedup == pytest.approx(textbook_speedup(0.75, 6, 0.1), rel=0.02)


def test_rounds_without_a_draft_count_as_plain_tokens() -> None:
    drafting = simulated(1.0, 3, 100)
    mixed = Speculation(
        "auto",
        rounds=200,
        drafted=drafting.drafted,
        accepted=drafting.accepted,
        accepted_per_position=drafting.accepted_per_position,
        drafted_per_position=drafting.drafted_per_position,
        propose_s=0.0,
    )
    prediction = predict(mixed, plain_token_s=0.1)
    assert prediction is not None
    # 100 rounds of 4 tokens and 100 of one, in 200 passes.
    assert prediction.speedup == pytest.approx(2.5)


def test_nothing_drafted_predicts_nothing() -> None:
    assert predict(Speculation("plain", rounds=10), plain_token_s=0.1) is None
    assert predict(simulated(0.5, 2, 10), plain_token_s=0.0) is None


def test_chances_by_position_are_conditional_on_the_tokens_before() -> None:
    assert chance_by_position((80, 40, 0), (100, 100, 100)) == (0.8, 0.5, 0.0)
    assert chance_by_position((5, 5, 0), (10, 5, 0)) == (0.5, 1.0, None)
