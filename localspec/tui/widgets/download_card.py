"""One pair on its way: its state in words, a bar for each file."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.backend.views import Download, DownloadFile
from localspec.tui.theme import Look
from localspec.tui.widgets.topbar import bar_text
from localspec.units import format_duration, format_file_size, format_rate

_WORDS = {
    "planning": "asking for sizes",
    "running": "downloading",
    "paused": "❚❚ paused",
    "done": "✓ here",
    "failed": "✗ failed",
    "cancelled": "cancelled",
}


class DownloadCard(Widget, can_focus=True):
    """Selected with the arrow keys; what the keys do is the screen's matter."""

    def __init__(self, item: Download, look: Look) -> None:
        super().__init__()
        self.look = look
        self.item = item

    def show(self, item: Download) -> None:
        if item != self.item:
            taller = len(self._lines(item)) != len(self._lines(self.item))
            self.item = item
            self.refresh(layout=taller)

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.item))

    def _lines(self, item: Download) -> list[Text]:
        look = self.look
        width = max(30, self.size.width)
        colours = {"done": look.good, "failed": look.bad, "paused": look.warn}
        head = Text.assemble((item.id, f"bold {look.text}"))
        head.append(f"   {_WORDS[item.state]}", colours.get(item.state, look.muted))
        if item.total:
            room = width - head.cell_len - 2
            words = next((text for text in _amounts(item) if len(text) <= room), "")
            head.append("  " + words.rjust(room), look.muted)
        lines = [head]
        if item.state in ("running", "paused", "planning"):
            lines += [self._file(file, width) for file in item.files]
        if item.message:
            lines.append(Text(f"  {item.message}", look.bad if item.state == "failed" else ""))
        if item.hint:
            lines.append(Text(f"  {item.hint}", look.muted))
        return lines

    def _file(self, file: DownloadFile, width: int) -> Text:
        look = self.look
        share = file.done / file.total if file.total else 0.0
        line = Text(f"  {file.role:<7}", look.muted)
        name = Text(file.name, look.text)
        name.truncate(max(10, width // 3), overflow="ellipsis", pad=True)
        line.append_text(name)
        stage = file.stage if file.stage != "downloading" else f"{share * 100:3.0f} %"
        room = width - line.cell_len - 14
        line.append(" ")
        line.append_text(bar_text(share, max(6, room), look.accent, look.faint))
        line.append(f" {stage:>10}", look.muted)
        return line


def _amounts(item: Download) -> list[str]:
    """How far it is, from the longest wording to the shortest."""
    sizes = f"{format_file_size(item.done)} of {format_file_size(item.total)}"
    if not item.rate or item.state != "running":
        return [sizes]
    rate = format_rate(item.rate)
    left = f"{format_duration((item.total - item.done) / item.rate)} left"
    return [f"{sizes}   {rate}   {left}", f"{rate}   {left}", left]
