"""A bar chart of speed-ups in text, with 1.0× marked and the spread over prompts shown."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.bench.bars import Bar, BarGroup, scale_end
from localspec.bench.tables import times

_LEAST_WIDTH = 16


def text_chart(groups: Sequence[BarGroup], width: int = 100) -> list[str]:
    """Lines of the chart, at most `width` characters each where that leaves room for bars.

    A bar is full up to the worst prompt, shaded up to the mean, and a line goes on to the best.
    """
    if not groups:
        return []
    label = max(len(group.label) for group in groups)
    name = max(len(bar.method) for group in groups for bar in group.bars)
    values = len("  1.00×  1.00–1.00")
    cells = max(_LEAST_WIDTH, width - label - name - values - 4)
    end = scale_end(groups)
    mark = _cell(1.0, end, cells)
    margin = " " * (label + name + 4)
    lines = [margin + " " * max(0, mark - 1) + "1.0×"]
    for group in groups:
        for index, bar in enumerate(group.bars):
            head = group.label if index == 0 else ""
            drawn = _draw(bar, end, cells, mark)
            spread = f"{bar.low:.2f}–{bar.high:.2f}"
            lines.append(
                f"{head:<{label}}  {bar.method:<{name}}  {drawn}  {times(bar.value)}  {spread}"
            )
    lines.append(margin + "█ worst prompt  ▒ mean  ─ best prompt  │ plain decoding")
    return lines


def _draw(bar: Bar, end: float, cells: int, mark: int) -> str:
    low, value, high = (_cell(x, end, cells) for x in (bar.low, bar.value, bar.high))
    row = []
    for cell in range(cells):
        if cell == mark:
            row.append("│" if cell >= value else "┃")
        elif cell < low:
            row.append("█")
        elif cell < value:
            row.append("▒")
        elif cell < high:
            row.append("─")
        else:
            row.append(" ")
    return "".join(row)


def _cell(value: float, end: float, cells: int) -> int:
    return max(0, min(cells, round(value / end * cells)))
