"""The line above every screen: where one is, this machine, and what is being downloaded."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widgets import Static

from localspec.tui.backend.views import Download, MachineView
from localspec.tui.messages import ScreenRequested
from localspec.tui.widgets.bars import progress
from localspec.units import GIB

SCREENS = (
    ("models", "Models", "f3"),
    ("chat", "Chat", "f4"),
    ("fit", "Fit", "f5"),
    ("downloads", "Downloads", "f6"),
    ("bench", "Bench", "f7"),
    ("log", "Log", "f8"),
)
"""Name, title and key of every screen."""


class TopTab(Static):
    """The name of one screen; a click goes there."""

    def __init__(self, name: str, title: str, *, is_current: bool) -> None:
        super().__init__(title, classes="current" if is_current else "")
        self._target = name

    def on_click(self, event: events.Click) -> None:
        self.post_message(ScreenRequested(self._target))


class TopBar(Horizontal):
    """One line; what does not fit at the right is left out, the most telling parts last."""

    machine: reactive[MachineView | None] = reactive(None)
    downloads: reactive[tuple[Download, ...]] = reactive(())
    ngrams: reactive[int] = reactive(0)
    """In the lookup caches of past sessions."""

    def __init__(self, current: str) -> None:
        super().__init__(id="topbar")
        self._current = current

    def compose(self) -> ComposeResult:
        yield Static("localspec", id="brand")
        for name, title, _ in SCREENS:
            yield TopTab(name, title, is_current=name == self._current)
        yield Static("", id="facts")

    def watch_machine(self) -> None:
        self._show()

    def watch_downloads(self) -> None:
        self._show()

    def watch_ngrams(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self.query("#facts"):
            return
        facts = self.query_one("#facts", Static)
        room = self.size.width - 10 - sum(len(title) + 2 for _, title, _ in SCREENS)
        facts.update(_facts(self.machine, self.downloads, self.ngrams, room))


def _facts(
    machine: MachineView | None, downloads: tuple[Download, ...], ngrams: int, room: int
) -> Text:
    pieces: list[Text] = []
    active = [item for item in downloads if item.is_active]
    if active:
        total, done = sum(d.total for d in active), sum(d.done for d in active)
        count = f"↓ {len(active)}"
        share = f" {done / total * 100:.0f} %" if total else ""
        pieces.append(Text(count + share))
    if machine is not None:
        long, short = machine_words(machine), short_words(machine)
        used = sum(piece.cell_len + 3 for piece in pieces)
        words = long if used + sum(len(word) + 3 for word in long) <= room else [short]
        pieces += [Text(text) for text in words]
    if ngrams:
        size = f"{ngrams / 1000:.0f} k" if ngrams >= 1000 else str(ngrams)
        pieces.append(Text(f"n-gram cache {size}"))
    shown = Text()
    for piece in pieces:
        gap = "   " if shown else ""
        if shown.cell_len + len(gap) + piece.cell_len > room - 1:
            continue
        shown.append(gap)
        shown.append_text(piece)
    return shown


def machine_words(machine: MachineView) -> list[str]:
    """Short pieces, the most telling first."""
    words = []
    for device in machine.devices:
        free = f" ({device.free / GIB:.1f} free)" if device.total else ""
        size = f" · {device.total / GIB:.1f} GiB{free}" if device.total else ""
        words.append(f"{device.name}{size}")
    if not machine.devices:
        words.append(
            f"CPU · {machine.ram_free / GIB:.1f} of {machine.ram_total / GIB:.0f} GiB free"
        )
    else:
        words.append(f"{machine.ram_total / GIB:.0f} GiB RAM")
    return words


def short_words(machine: MachineView) -> str:
    """One piece where room is short."""
    if machine.devices:
        device = machine.devices[0]
        return f"{device.name} {device.free / GIB:.1f} GiB free"
    return f"CPU {machine.ram_free / GIB:.1f} GiB free"


def bar_text(share: float, width: int, done_style: str, open_style: str) -> Text:
    """A thin progress bar."""
    done, rest = progress(share, width)
    text = Text(done, done_style)
    text.append(rest, open_style)
    return text
