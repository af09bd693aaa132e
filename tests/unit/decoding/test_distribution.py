"""The rule of speculative sampling, by exact sums over all that can happen."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from localspec.decoding.distribution import (
    Distribution,
    SeededDice,
    acceptance,
    keep_or_replace,
    overlap,
    residual,
)
from tests.support.chance import all_outcomes, law_after

LAWS = [
    (
        law_after([seed], n_vocab=n_vocab, seed=1, sharpness=sharpness),
        law_after([seed], n_vocab=n_draft, seed=2),
    )
    for seed in range(12)
    for n_vocab, n_draft in ((2, 2), (5, 5), (5, 8), (8, 5), (40, 40))
    for sharpness in (0.5, 4.0)
]


def one_of(*pairs: tuple[int, float]) -> Distribution:
    return Distribution(
        np.array([token for token, _ in pairs], np.int32), np.array([p for _, p in pairs])
    )


def table(law: Distribution) -> dict[int, float]:
    return dict(zip(law.ids.tolist(), law.probabilities.tolist(), strict=True))


@pytest.mark.parametrize(("target", "proposal"), LAWS)
def test_over_all_draws_what_is_kept_or_put_in_its_place_is_distributed_as_the_target(
    target: Distribution, proposal: Distribution
) -> None:
    found: dict[int, float] = {}
    for token, probability in table(proposal).items():
        kept = acceptance(target, proposal, token)
        found[token] = found.get(token, 0.0) + probability * kept
        rest = residual(target, proposal)
        if rest is None:
            assert kept == pytest.approx(1.0)
            continue
        for other, share in table(rest).items():
            found[other] = found.get(other, 0.0) + probability * (1.0 - kept) * share
    found = {token: p for token, p in found.items() if p > 0.0}
    assert found == pytest.approx(table(target), abs=1e-12)


@pytest.mark.parametrize(("target", "proposal"), LAWS[:40])
def test_the_function_the_loop_calls_follows_the_same_law(
    target: Distribution, proposal: Distribution
) -> None:
    outcomes = all_outcomes(
        lambda dice: keep_or_replace(target, proposal, dice.pick(proposal), dice)
    )
    assert outcomes == pytest.approx(table(target), abs=1e-12)


@pytest.mark.parametrize(("target", "proposal"), LAWS)
def test_the_overlap_is_how_often_a_drawn_token_is_kept(
    target: Distribution, proposal: Distribution
) -> None:
    kept = sum(p * acceptance(target, proposal, token) for token, p in table(proposal).items())
    assert overlap(target, proposal) == pytest.approx(kept)


@pytest.mark.parametrize(("target", "proposal"), LAWS)
def test_a_replacement_is_never_a_token_that_can_be_rejected(
    target: Distribution, proposal: Distribution
) -> None:
    rest = residual(target, proposal)
    for token in [] if rest is None else rest.ids.tolist():
        assert acceptance(target, proposal, token) == 1.0


def test_equal_distributions_leave_nothing_to_replace_with() -> None:
    law = one_of((3, 0.25), (1, 0.75))
    same = one_of((1, 0.75), (3, 0.25))
    assert residual(law, same) is None
    assert all_outcomes(lambda dice: keep_or_replace(law, same, 3, dice)) == {3: 1.0}


def test_a_rejection_by_rounding_alone_keeps_the_token() -> None:
    """p / q may come out a hair below 1 where nothing is left over to replace the token with."""
    target, proposal = one_of((3, 1.0 - 1e-16), (4, 0.0)), one_of((3, 1.0))
    proposal_above = Distribution(proposal.ids, proposal.probabilities * (1 + 2e-16))
    outcomes = all_outcomes(lambda dice: keep_or_replace(target, proposal_above, 3, dice))
    assert set(outcomes) == {3}


def test_a_token_the_target_forbids_is_always_replaced() -> None:
    target, proposal = one_of((1, 0.5), (2, 0.5)), one_of((0, 0.9), (2, 0.1))
    assert acceptance(target, proposal, 0) == 0.0
    outcomes = all_outcomes(lambda dice: keep_or_replace(target, proposal, 0, dice))
    assert outcomes == pytest.approx({1: 0.5 / 0.9, 2: 0.4 / 0.9})


@pytest.mark.parametrize(("said", "drawn"), [(900, 2), (2, 900)])
def test_ids_that_only_one_side_knows_are_no_trouble(said: int, drawn: int) -> None:
    target, proposal = one_of((said, 1.0)), one_of((drawn, 1.0))
    assert overlap(target, proposal) == 0.0
    outcomes = all_outcomes(lambda dice: keep_or_replace(target, proposal, drawn, dice))
    assert outcomes == {said: 1.0}


def test_seeded_dice_pick_by_probability_and_repeat_themselves() -> None:
    law = one_of((7, 0.5), (2, 0.3), (9, 0.2))
    dice, same, other = SeededDice(5, 1), SeededDice(5, 1), SeededDice(5, 2)
    picks = [dice.pick(law) for _ in range(4000)]
    assert picks == [same.pick(law) for _ in range(4000)]
    assert picks != [other.pick(law) for _ in range(4000)]
    counts = Counter(picks)
    for token, probability in table(law).items():
        spread = (4000 * probability * (1 - probability)) ** 0.5
        assert abs(counts[token] - 4000 * probability) < 4 * spread
    assert sum(dice.happens(0.25) for _ in range(4000)) == pytest.approx(1000, abs=4 * 27.4)
    assert all(dice.happens(1.0) for _ in range(200))
    assert not any(dice.happens(0.0) for _ in range(200))
