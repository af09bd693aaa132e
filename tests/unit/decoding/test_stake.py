"""What an answer may lose, and how drafts that were not played earn trust."""

from __future__ import annotations

import pytest

from localspec.decoding.stake import Stake

PLAIN_S = 0.01
TABLE = [0.0, *(PLAIN_S * (1.0 + 0.5 * width) for width in range(17))]


def test_an_answer_starts_with_little_more_than_one_plain_pass() -> None:
    stake = Stake()
    assert stake.affordable(16, TABLE) == 2
    stake.settle(1.1 * PLAIN_S, PLAIN_S)
    assert stake.affordable(16, TABLE) == 0


def test_gains_add_to_it_and_the_next_answer_starts_afresh() -> None:
    stake = Stake()
    stake.settle(-4 * PLAIN_S, PLAIN_S)
    assert stake.affordable(16, TABLE) == 10
    assert stake.affordable(3, TABLE) == 3
    stake.begin()
    assert stake.affordable(16, TABLE) == 2


def test_a_lost_stake_comes_back_slowly() -> None:
    stake = Stake()
    stake.settle(1.2 * PLAIN_S, PLAIN_S)
    rounds = 0
    while not stake.affordable(16, TABLE):
        stake.settle(0.0, PLAIN_S)
        rounds += 1
    assert 15 < rounds < 40


def test_a_rehearsal_that_would_have_won_is_credited() -> None:
    stake = Stake()
    stake.rehearse((1, 2, 3, 4, 5, 6), 4 * PLAIN_S)
    stake.hear([1, 2, 3], PLAIN_S)
    assert stake.affordable(16, TABLE) == 2
    stake.hear([4, 5, 6, 7], PLAIN_S)
    # Seven tokens for the price of four: more than can be credited.
    assert stake.affordable(16, TABLE) == 5
    assert stake.held == pytest.approx(1.2)


def test_a_rehearsal_that_would_have_lost_takes_credit_away_but_no_stake() -> None:
    stake = Stake()
    stake.rehearse((1, 2, 3, 4, 5, 6), 6 * PLAIN_S)
    stake.hear([1, 2, 3, 4, 5, 6], PLAIN_S)
    assert stake.affordable(16, TABLE) == 4
    stake.rehearse((1, 2, 3, 4, 5, 6), 2.5 * PLAIN_S)
    stake.hear([1, 9], PLAIN_S)
    assert stake.affordable(16, TABLE) == 3
    stake.rehearse((1, 2), 9 * PLAIN_S)
    stake.hear([9], PLAIN_S)
    assert stake.affordable(16, TABLE) == 2


def test_losses_are_bounded_however_often_rehearsals_win() -> None:
    """What is rehearsed always wins and what is played always loses."""
    stake = Stake()
    lost = 0.0
    for _ in range(200):
        length = stake.affordable(16, TABLE)
        if length:
            cost = TABLE[1 + length] - TABLE[1]
            stake.settle(cost, PLAIN_S)
            lost += cost / PLAIN_S
        else:
            stake.settle(0.0, PLAIN_S)
        stake.rehearse((1, 2, 3), PLAIN_S)
        stake.hear([1, 2, 3, 4], PLAIN_S)
    assert lost < 1.2 + 1.5 + 0.02 * 200


def test_one_rehearsal_at_a_time() -> None:
    stake = Stake()
    stake.rehearse((1, 2), PLAIN_S)
    stake.rehearse((7, 8), PLAIN_S)
    stake.hear([1, 2], PLAIN_S)
    assert stake.affordable(16, TABLE) == 5
