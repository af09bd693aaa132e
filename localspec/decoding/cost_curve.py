"""C(n): what a target pass over n tokens costs on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

DEFAULT_MAX_WIDTH = 17
"""1 + the largest draft length."""

_WIDEST = 1025

# Before anything is measured: a guess between the flat curve of a GPU and the steep one of a CPU.
_GUESSED_SECONDS = 0.02
_GUESSED_SLOPE = 0.15
_SEED_WEIGHT = 4.0
_MOST_WEIGHT = 12.0
_FORGET = 0.98
# Passes get slower all together when the context grows or the machine heats up: widths that were
# not seen lately follow by this share of what those that were seen moved.
_FOLLOW = 0.6
_SETTLED_WEIGHT = 4.0
_FURTHEST = 2.0
_REDRAWN = 0.01
"""Relative change that measurements have to add up to before the table is drawn anew."""


class CostCurve:
    """Seconds per pass by width: probed, refined by every round, interpolated, never falling.

    Each measured width keeps a decaying mean. One measurement moves it by no more than its gain
    times a factor of two, so that a hiccup of the machine does not decide the next rounds.
    """

    def __init__(
        self, seconds: Mapping[int, float] | None = None, *, max_width: int = DEFAULT_MAX_WIDTH
    ) -> None:
        """seconds: width -> seconds per pass, as probed at load; None to begin with a guess."""
        self.max_width = max_width
        # What all widths have moved together is one factor, and what they forget one count, so
        # that a measurement costs the same however many widths there are.
        self._scale = 1.0
        self._forgotten = 0
        self._mean = [0.0] * (max_width + 1)
        """In units of `_scale`."""
        self._weight = [0.0] * (max_width + 1)
        """As it was when `_forgotten` was what `_since` says."""
        self._since = [0] * (max_width + 1)
        for width, value in (seconds or {}).items():
            if 1 <= width <= max_width and value > 0.0:
                self._mean[width] = value
                self._weight[width] = _SEED_WEIGHT
        self._table: list[float] = []
        self._drift = 1.0
        """What measurements have changed since the table was drawn, relative and added up."""

    def widen(self, max_width: int) -> None:
        """Know widths up to `max_width` from now on; never fewer than before."""
        more = max_width - self.max_width
        if more > 0:
            self.max_width = max_width
            self._mean += [0.0] * more
            self._weight += [0.0] * more
            self._since += [0] * more
            self._drift = 1.0

    @property
    def table(self) -> list[float]:
        """Entry n: seconds of a pass over n tokens, for n from 1 to max_width; entry 0 is 0.

        May lag behind the newest measurements by one percent.
        """
        if self._drift >= _REDRAWN:
            self._table = self._interpolated()
            self._drift = 0.0
        return self._table

    def seconds(self, width: int) -> float:
        """Seconds of a pass over `width` tokens; beyond max_width the curve goes on as it did over
        its upper half: a single step may be noise, or the edge of a tile."""
        table = self.table
        if width <= self.max_width:
            return table[width]
        half = max(1, self.max_width // 2)
        slope = (table[-1] - table[half]) / (self.max_width - half)
        return table[-1] + (width - self.max_width) * slope

    def observe(self, width: int, seconds: float) -> None:
        """A pass over `width` tokens took `seconds`."""
        if not 1 <= width <= self.max_width or seconds <= 0.0:
            return
        if not self._is_known:
            self._put(width, seconds, 1.0)
            self._drift = 1.0
            return
        held = self._weight_of(width)
        predicted = self._mean[width] * self._scale if held else self.table[width]
        ratio = min(max(seconds / predicted, 1.0 / _FURTHEST), _FURTHEST)
        step = (ratio - 1.0) / (held + 1.0)
        if held >= _SETTLED_WEIGHT:
            self._scale *= 1.0 + _FOLLOW * step
            self._forgotten += 1
        self._put(width, predicted * (1.0 + step), min(held + 1.0, _MOST_WEIGHT))
        self._drift += abs(step) if held else 1.0

    def rescale(self, width: int, seconds: float) -> None:
        """The whole curve as if a pass over `width` tokens took `seconds`: the machine is faster
        or busier than when it was measured, and its shape is what stays."""
        self._scale *= seconds / self.table[width]
        self._drift = 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a file: `from_dict` gives the same curve again."""
        known = self._known()
        return {
            "max_width": self.max_width,
            "seconds": {str(width): seconds for width, seconds, _ in known},
            "weights": {str(width): weight for width, _, weight in known},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CostCurve:
        """The curve that `as_dict` described. Raises ValueError for anything else."""
        try:
            max_width = int(data["max_width"])
            if not 2 <= max_width <= _WIDEST:
                raise ValueError(f"width {max_width} is not one of a cost curve")
            curve = cls(max_width=max_width)
            for key, value in data["seconds"].items():
                mean, weight = float(value), float(data["weights"][key])
                if not (0.0 < mean < 1e6 and 0.0 <= weight <= _MOST_WEIGHT and int(key) >= 1):
                    raise ValueError(f"width {key}: {value} s")
                curve._put(int(key), mean, weight)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a cost curve: {error}") from error
        return curve

    @property
    def _is_known(self) -> bool:
        """Whether anything was measured."""
        return any(self._mean)

    def _weight_of(self, width: int) -> float:
        return float(self._weight[width] * _FORGET ** (self._forgotten - self._since[width]))

    def _put(self, width: int, seconds: float, weight: float) -> None:
        self._mean[width] = seconds / self._scale
        self._weight[width] = weight
        self._since[width] = self._forgotten

    def _known(self) -> list[tuple[int, float, float]]:
        """Width, seconds and weight of every width that was measured."""
        return [
            (width, mean * self._scale, self._weight_of(width))
            for width, mean in enumerate(self._mean)
            if mean
        ]

    def _interpolated(self) -> list[float]:
        knots = _never_falling(self._known())
        if not knots:
            knots = [(1, _GUESSED_SECONDS)]
        table = [0.0] * (self.max_width + 1)
        first, at_first = knots[0]
        # The cost of one token, where only wider passes were measured.
        single = at_first / (1.0 + _GUESSED_SLOPE * (first - 1))
        if first > 1:
            knots.insert(0, (1, single))
        if len(knots) == 1:
            slope = _GUESSED_SLOPE * single
        else:
            (before, at_before), (last, at_last) = knots[-2:]
            slope = (at_last - at_before) / (last - before)
        for (left, at_left), (right, at_right) in pairwise(knots):
            step = (at_right - at_left) / (right - left)
            for width in range(left, right):
                table[width] = at_left + step * (width - left)
        last, at_last = knots[-1]
        for width in range(last, self.max_width + 1):
            table[width] = at_last + slope * (width - last)
        return table


def _never_falling(knots: list[tuple[int, float, float]]) -> list[tuple[int, float]]:
    """Weighted isotonic regression (pool adjacent violators) of (width, seconds, weight)."""
    pools: list[list[float]] = []
    for _, seconds, weight in knots:
        pools.append([seconds, max(weight, 1e-9), 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            seconds_2, weight_2, count_2 = pools.pop()
            seconds_1, weight_1, count_1 = pools.pop()
            total = weight_1 + weight_2
            mean = (seconds_1 * weight_1 + seconds_2 * weight_2) / total
            pools.append([mean, total, count_1 + count_2])
    levels = [pool[0] for pool in pools for _ in range(int(pool[2]))]
    return [(knot[0], level) for knot, level in zip(knots, levels, strict=True)]
