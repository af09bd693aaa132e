"""What the bar charts show, for the terminal and for SVG alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.bench.results import Comparison, GroupResult
from localspec.bench.tables import ALL


@dataclass(frozen=True, slots=True)
class Bar:
    """One method on one workload."""

    method: str
    value: float
    """Geometric mean of the speed-ups."""
    low: float
    high: float
    """Spread: the worst and the best prompt."""


@dataclass(frozen=True, slots=True)
class BarGroup:
    label: str
    bars: tuple[Bar, ...]


def bar_groups(
    comparison: Comparison, methods: Sequence[str] | None = None
) -> tuple[BarGroup, ...]:
    """One group per workload and a last one for all of them.

    methods: which to show; None shows all but plain decoding, which is the 1.0 itself.
    """
    shown = [
        name
        for name in comparison.methods
        if (name != comparison.baseline if methods is None else name in methods)
    ]
    groups = []
    for workload in comparison.workloads:
        found = [comparison.group(method, workload) for method in shown]
        groups.append(BarGroup(workload, _bars(found)))
    if len(comparison.workloads) > 1:
        groups.append(BarGroup(ALL, _bars([comparison.of(method) for method in shown])))
    return tuple(group for group in groups if group.bars)


def scale_end(groups: Sequence[BarGroup]) -> float:
    """Where the axis ends: the next half above the longest whisker, 1.5 at least."""
    longest = max((bar.high for group in groups for bar in group.bars), default=1.0)
    return max(1.5, -(-longest * 2 // 1) / 2)


def _bars(groups: Sequence[GroupResult | None]) -> tuple[Bar, ...]:
    return tuple(
        Bar(group.method, group.speedup, group.worst, group.best)
        for group in groups
        if group is not None
        and group.speedup is not None
        and group.worst is not None
        and group.best is not None
    )
