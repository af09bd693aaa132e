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
        self._mean = [0.0] * (max_width + 1)
        self._weight = [0.0] * (max_width + 1)
        for width, value in (seconds or {}).items():
            if 1 <= width <= max_width and value > 0.0:
                self._mean[width] = value
                self._weight[width] = _SEED_WEIGHT
        self._table: list[float] = []
        self._stale = True

    def widen(self, max_width: int) -> None:
        """Know widths up to `max_width` from now on; never fewer than before."""
        more = max_width - self.max_width
        if more > 0:
            self.max_width = max_width
            self._mean += [0.0] * more
            self._weight += [0.0] * more
            self._stale = True

    @property
    def table(self) -> list[float]:
        """Entry n: seconds of a pass over n tokens, for n from 1 to max_width; entry 0 is 0."""
        if self._stale:
            self._table = self._interpolated()
            self._stale = False
        return self._table

    def seconds(self, width: int) -> float:
        """Seconds of a pass over `width` tokens; the last step goes on beyond max_width."""
        table = self.table
        if width <= self.max_width:
            return table[width]
        return table[-1] + (width - self.max_width) * (table[-1] - table[-2])

    def observe(self, width: int, seconds: float) -> None:
        """A pass over `width` tokens took `seconds`."""
        if not 1 <= width <= self.max_width or seconds <= 0.0:
            return
        mean, weight = self._mean, self._weight
        held = weight[width]
        if not any(weight):
            mean[width], weight[width] = seconds, 1.0
            self._stale = True
            return
        predicted = mean[width] if held else self.table[width]
        ratio = min(max(seconds / predicted, 1.0 / _FURTHEST), _FURTHEST)
        step = (ratio - 1.0) / (held + 1.0)
        if held >= _SETTLED_WEIGHT:
            for other in range(1, self.max_width + 1):
                mean[other] *= 1.0 + _FOLLOW * step
                weight[other] *= _FORGET
        mean[width] = predicted * (1.0 + step)
        weight[width] = min(held + 1.0, _MOST_WEIGHT)
        self._stale = True

    def rescale(self, width: int, seconds: float) -> None:
        """The whole curve as if a pass over `width` tokens took `seconds`: the machine is faster
        or busier than when it was measured, and its shape is what stays."""
        factor = seconds / self.table[width]
        self._mean = [mean * factor for mean in self._mean]
        self._stale = True

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a file: `from_dict` gives the same curve again."""
        return {
            "max_width": self.max_width,
            "seconds": {
                str(n): self._mean[n] for n in range(1, self.max_width + 1) if self._mean[n]
            },
            "weights": {
                str(n): self._weight[n] for n in range(1, self.max_width + 1) if self._mean[n]
            },
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
                curve._mean[int(key)], curve._weight[int(key)] = mean, weight
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a cost curve: {error}") from error
        return curve

    def _interpolated(self) -> list[float]:
        knots = _never_falling(
            [
                (width, self._mean[width], self._weight[width])
                for width in range(1, self.max_width + 1)
                if self._mean[width]
            ]
        )
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
