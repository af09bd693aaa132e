"""Bars and sparklines as text: eighths of a cell, never only a colour."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled from the left; the rest is spaces."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[part] if part else "")
    return text.ljust(width)


def progress(share: float, width: int) -> tuple[str, str]:
    """The done and the open part of a thin progress bar."""
    done = round(max(0.0, min(1.0, share)) * width)
    return "━" * done, "━" * (width - done)


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values, each one character, scaled from zero to the highest."""
    shown = list(values)[-width:]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return ""
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[min(top, round(value / highest * top))] for value in shown)


def stacked(parts: Sequence[int], total: int, width: int) -> list[int]:
    """Cells of each part of `total` in a bar of `width`; a part that is there gets at least one
    cell where there is room, and together they never take more than `width`."""
    if total <= 0:
        return [0] * len(parts)
    exact = [max(0, part) * width / total for part in parts]
    cells = [
        max(1, round(size)) if part > 0 else 0 for part, size in zip(parts, exact, strict=True)
    ]
    while sum(cells) > width and max(cells) > 0:
        cells[cells.index(max(cells))] -= 1
    return cells
