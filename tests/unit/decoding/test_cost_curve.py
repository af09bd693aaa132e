"""C(n): interpolation, monotony, learning, hiccups, drift, storing."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.decoding.cost_curve import CostCurve

PROBED = {1: 0.010, 2: 0.014, 4: 0.018, 8: 0.026, 17: 0.044}


def test_probed_widths_are_kept_and_those_between_interpolated() -> None:
    curve = CostCurve(PROBED)
    assert curve.seconds(4) == pytest.approx(0.018)
    assert curve.seconds(6) == pytest.approx(0.022)
    assert curve.seconds(18) == pytest.approx(0.046)


def test_without_any_measurement_a_wider_pass_costs_more() -> None:
    table = CostCurve().table
    assert all(left < right for left, right in pairwise(table))


def test_the_first_measurement_sets_the_scale() -> None:
    curve = CostCurve()
    curve.observe(5, 0.32)
    assert curve.seconds(5) == pytest.approx(0.32)
    assert 0.1 < curve.seconds(1) < 0.32 < curve.seconds(17)


@given(
    st.dictionaries(st.integers(1, 17), st.floats(1e-4, 1.0)),
    st.lists(st.tuples(st.integers(1, 17), st.floats(1e-4, 1.0)), max_size=60),
)
def test_the_curve_never_falls_and_stays_positive(
    probed: dict[int, float], seen: list[tuple[int, float]]
) -> None:
    curve = CostCurve(probed)
    for width, seconds in seen:
        curve.observe(width, seconds)
    table = curve.table[1:]
    assert table[0] > 0.0
    assert all(right >= left * (1 - 1e-9) for left, right in pairwise(table))


def test_rounds_correct_a_wrong_probe() -> None:
    curve = CostCurve({width: 2 * seconds for width, seconds in PROBED.items()})
    noise = random.Random(1)
    for _ in range(80):
        width = noise.choice(list(PROBED))
        curve.observe(width, PROBED[width] * noise.uniform(0.95, 1.05))
    for width, seconds in PROBED.items():
        assert curve.seconds(width) == pytest.approx(seconds, rel=0.1)


def test_one_hiccup_moves_the_curve_by_less_than_a_quarter() -> None:
    curve = CostCurve(PROBED)
    curve.observe(1, 5.0)
    assert curve.seconds(1) < 0.0125


def test_widths_not_seen_lately_follow_a_machine_that_slows_down() -> None:
    curve = CostCurve(PROBED)
    for _ in range(150):
        curve.observe(1, 0.020)
    assert curve.seconds(1) == pytest.approx(0.020, rel=0.05)
    assert curve.seconds(8) > 1.3 * 0.026


def test_senseless_measurements_are_ignored() -> None:
    curve = CostCurve(PROBED)
    before = list(curve.table)
    curve.observe(0, 0.1)
    curve.observe(40, 0.1)
    curve.observe(3, 0.0)
    assert curve.table == before


def test_a_widened_curve_goes_on_with_its_last_slope_and_learns_there() -> None:
    curve = CostCurve(PROBED)
    curve.widen(33)
    assert curve.seconds(17) == pytest.approx(0.044)
    assert curve.seconds(33) == pytest.approx(0.044 + 16 * 0.002)
    curve.observe(33, 0.08)
    assert curve.seconds(33) == pytest.approx(0.08)
    curve.widen(5)
    assert curve.max_width == 33


def test_a_stored_curve_is_the_same_curve() -> None:
    curve = CostCurve(PROBED)
    for width in (1, 3, 3, 9, 1):
        curve.observe(width, 0.02)
    again = CostCurve.from_dict(json.loads(json.dumps(curve.as_dict())))
    assert again.table == pytest.approx(curve.table)
    curve.observe(5, 0.03)
    again.observe(5, 0.03)
    assert again.table == pytest.approx(curve.table)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"max_width": "x"},
        {"max_width": 10**9, "seconds": {}, "weights": {}},
        {"max_width": 17, "seconds": [1]},
        {"max_width": 17, "seconds": {"1": -1.0}, "weights": {"1": 1.0}},
        {"max_width": 17, "seconds": {"40": 1.0}, "weights": {"40": 1.0}},
        {"max_width": 17, "seconds": {"1": 1.0}, "weights": {}},
        {"max_width": 17, "seconds": {"1": float("nan")}, "weights": {"1": 1.0}},
    ],
)
def test_a_broken_store_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"cost curve|width|invalid literal"):
        CostCurve.from_dict(data)
