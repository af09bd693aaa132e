"""The controller alone, in simulated time: never slower than plain, close to the best fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.controller_simulation import (
    CURVES,
    DEAR_SHARE,
    PROCESSES,
    Outcome,
    simulate,
    table,
)

DOCS = Path(__file__).parents[3] / "docs" / "controller.md"


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str, float], Outcome]:
    return {
        (curve, process, share): simulate(curve, process, token_share=share)
        for curve in CURVES
        for process in PROCESSES
        for share in (0.0, DEAR_SHARE)
    }


def test_it_is_never_slower_than_plain_by_more_than_a_few_percent(
    outcomes: dict[tuple[str, str, float], Outcome],
) -> None:
    slower = {key: o.speedup for key, o in outcomes.items() if o.speedup < 0.97}
    assert slower == {}


def test_its_regret_against_the_best_fixed_length_is_bounded(
    outcomes: dict[tuple[str, str, float], Outcome],
) -> None:
    regretted = {key: o.regret for key, o in outcomes.items() if o.regret > 0.10}
    assert regretted == {}


def test_where_the_text_changes_character_it_beats_every_fixed_length(
    outcomes: dict[tuple[str, str, float], Outcome],
) -> None:
    for process in ("switching", "late"):
        assert outcomes["steep", process, 0.0].regret < -0.15
    assert outcomes["steep", "late", DEAR_SHARE].regret < -0.10


def test_where_drafting_pays_it_drafts(outcomes: dict[tuple[str, str, float], Outcome]) -> None:
    assert outcomes["flat", "always 0.9", 0.0].speedup > 6.0
    assert outcomes["steps", "always 0.9", DEAR_SHARE].speedup > 2.3


@pytest.mark.parametrize("process", ["switching", "late"])
def test_honest_confidences_make_it_faster(
    process: str, outcomes: dict[tuple[str, str, float], Outcome]
) -> None:
    honest = simulate("steep", process, honest=True)
    assert honest.auto_s < outcomes["steep", process, 0.0].auto_s


def test_the_documented_table_is_what_this_controller_yields(
    outcomes: dict[tuple[str, str, float], Outcome],
) -> None:
    """Up to what the last digit of a logarithm can change on another platform."""
    documented = rows(DOCS.read_text(encoding="utf-8"))
    simulated = rows(table(outcomes))
    assert documented.keys() == simulated.keys()
    for key, (best_length, best, auto, regret) in simulated.items():
        assert documented[key][0] == pytest.approx(best_length, abs=2)
        assert documented[key][1] == pytest.approx(best, rel=0.05)
        assert documented[key][2] == pytest.approx(auto, rel=0.05)
        assert documented[key][3] == pytest.approx(regret, abs=5)


def rows(markdown: str) -> dict[tuple[str, ...], tuple[float, ...]]:
    """Figures of the table by pass cost, process and drafter."""
    found: dict[tuple[str, ...], tuple[float, ...]] = {}
    for line in markdown.splitlines():
        cells = [cell.strip(" %") for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0] in CURVES:
            found[tuple(cells[:3])] = tuple(float(cell) for cell in cells[3:])
    return found
