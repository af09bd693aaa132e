"""What drafts are worth: the arithmetic of gains, prices and possible losses."""

from __future__ import annotations

import itertools

import pytest

from localspec.decoding.worth import Terms, squared_loss

TABLE = [0.0, *(0.01 * (1.0 + 0.5 * width) for width in range(17))]
CHANCES = (0.9, 0.8, 0.7, 0.2)


def outcomes(chances: tuple[float, ...]) -> list[tuple[int, float]]:
    """(accepted tokens, probability) by going through all cases."""
    found = []
    for kept in itertools.product((True, False), repeat=len(chances)):
        probability = 1.0
        for chance, hit in zip(chances, kept, strict=True):
            probability *= chance if hit else 1.0 - chance
        accepted = len(list(itertools.takewhile(bool, kept)))
        found.append((accepted, probability))
    return found


@pytest.mark.parametrize("price", [0.3, 1.0, 2.5, 9.0])
def test_the_squared_loss_is_that_of_all_cases(price: float) -> None:
    reached = [1.0, *itertools.accumulate(CHANCES, lambda a, b: a * b)]
    expected = sum(p * max(0.0, price - accepted) ** 2 for accepted, p in outcomes(CHANCES))
    assert squared_loss(reached, price) == pytest.approx(expected)


def test_without_fear_the_best_length_has_the_most_expected_tokens_for_its_time() -> None:
    terms = Terms(TABLE, 1.0 / TABLE[1], 0.0)
    choice = terms.best_length(CHANCES)
    worths = [
        1.0
        + sum(p * accepted for accepted, p in outcomes(CHANCES[:length]))
        - TABLE[1 + length] / TABLE[1]
        for length in range(5)
    ]
    assert choice.length == max(range(5), key=worths.__getitem__)
    assert choice.worth == pytest.approx(max(worths))


def test_fear_makes_a_doubtful_draft_worth_nothing_and_leaves_a_sure_one() -> None:
    bold, timid = Terms(TABLE, 1.0 / TABLE[1], 0.0), Terms(TABLE, 1.0 / TABLE[1], 2.0)
    assert bold.best_length((0.6,)).length == 1
    assert timid.best_length((0.6,)).length == 0
    assert timid.best_length((0.999,)).length == 1


def test_a_request_behind_another_draft_is_reached_only_if_that_is_accepted() -> None:
    terms = Terms(TABLE, 1.0 / TABLE[1], 0.0)
    forecast = [(1.0, 0.9), (1.0, 0.85)]
    likely = terms.best_request(forecast, 0.001, 0.0, (0.95, 0.95))
    doubtful = terms.best_request(forecast, 0.001, 0.0, (0.3, 0.3))
    assert likely.length == 2
    assert likely.worth > doubtful.worth
    assert likely.tokens == pytest.approx(1.0 + 0.95 + 0.95**2 * (1.0 + 0.9 + 0.85))


def test_what_has_to_be_caught_up_on_is_part_of_the_price() -> None:
    terms = Terms(TABLE, 1.0 / TABLE[1], 0.0)
    forecast = [(1.0, 0.9), (1.0, 0.85)]
    assert terms.best_request(forecast, 0.001, 0.0).length == 2
    assert terms.best_request(forecast, 0.001, 0.02).length == 0
