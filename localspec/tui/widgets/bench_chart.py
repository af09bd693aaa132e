"""A bar for each method and workload, with 1.0× marked and the spread shown."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.backend.views import BenchBar
from localspec.tui.theme import Look

_VALUES = 20
"""Cells that the figures at the right take."""


class BenchChart(Widget):
    """Grows with its bars."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._bars: tuple[BenchBar, ...] = ()

    def show(self, bars: tuple[BenchBar, ...]) -> None:
        self._bars = bars
        self.refresh(layout=True)

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        if not self._bars:
            return Text("")
        return Text("\n").join(chart_lines(self._bars, self.look, max(30, self.size.width)))


def chart_lines(bars: tuple[BenchBar, ...], look: Look, width: int) -> list[Text]:
    """Full up to the worst prompt, shaded up to the mean, a line on to the best."""
    label = max(len(bar.label) for bar in bars)
    method = max(len(bar.method) for bar in bars)
    cells = max(10, width - label - method - _VALUES - 3)
    end = max(1.5, -(-max(bar.high for bar in bars) * 2 // 1) / 2)
    mark = round(1.0 / end * cells)
    lines = [Text(" " * (label + method + 2 + max(0, mark - 1)) + "1.0×", look.muted)]
    before = ""
    for bar in bars:
        head = bar.label if bar.label != before else ""
        before = bar.label
        line = Text(f"{head:<{label}} ", f"bold {look.text}")
        line = Text.assemble(line, (f"{bar.method:<{method}} ", look.muted))
        colour = look.accent if bar.value >= 1.0 else look.bad
        for cell in range(cells):
            low, value, high = (round(x / end * cells) for x in (bar.low, bar.value, bar.high))
            if cell == mark:
                line.append("┃" if cell < value else "│", look.text)
            elif cell < low:
                line.append("█", colour)
            elif cell < value:
                line.append("▒", colour)
            elif cell < high:
                line.append("─", colour)
            else:
                line.append(" ")
        line.append(f" {bar.value:5.2f}×", f"bold {colour}")
        line.append(f"  {bar.low:.2f}–{bar.high:.2f}", look.muted)
        lines.append(line)
    lines.append(Text("█ worst prompt  ▒ mean  ─ best prompt  │ plain decoding", look.muted))
    return lines
