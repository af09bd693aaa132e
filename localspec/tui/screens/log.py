"""Log and doctor: devices, the build, memory against its plan, and what llama.cpp said."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Footer, Static

from localspec.errors import LocalspecError
from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import FactGroup
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look

_EVERY_S = 1.0
_HELP = """\
**Log** shows what llama.cpp and the engine said: their output never reaches the screen otherwise.

- **Devices** are what this build of llama.cpp sees. A card that is missing here cannot be used: \
*To mend* has the command that builds llama.cpp for it.
- **Memory: plan and reality** holds the figures of the Fit screen against what the engine's \
process really takes.
"""


class FactsFound(Message):
    def __init__(self, groups: tuple[FactGroup, ...]) -> None:
        super().__init__()
        self.groups = groups


class LogScreen(BaseScreen):
    """Facts at the left, the log at the right."""

    NAME = "log"
    HELP_TEXT = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "look", "Look again"),
        Binding("ctrl+y", "copy", "Copy log"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._groups: tuple[FactGroup, ...] = ()
        self._lines: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        with Horizontal(id="log-body"):
            with VerticalScroll(id="facts-panel", classes="panel"):
                yield Static("asking llama.cpp…", id="doctor")
            with VerticalScroll(id="native-log", classes="panel"):
                yield Static("", id="log-lines")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#facts-panel").border_title = "Doctor"
        self.query_one("#native-log").border_title = "Native log"
        self.query_one("#native-log").focus()
        self.set_interval(_EVERY_S, self._read_log)

    def on_screen_resume(self) -> None:
        self._read_log()
        self._find_facts()

    def show_look(self, look: Look) -> None:
        self._show_facts()
        self._lines = []
        self._read_log()

    @work(group="doctor", exclusive=True)
    async def _find_facts(self) -> None:
        try:
            groups = await asyncio.to_thread(self.backend.doctor)
        except LocalspecError:
            # A plan that cannot be made must not hide the devices; the next look tries again.
            return
        self.post_message(FactsFound(groups))

    @on(FactsFound)
    def _facts_found(self, message: FactsFound) -> None:
        self._groups = message.groups
        self._show_facts()

    def _show_facts(self) -> None:
        look = self.look
        if not self._groups:
            return
        colours = {"good": look.good, "warn": look.warn, "bad": look.bad}
        signs = {"good": "✓ ", "warn": "! ", "bad": "✗ "}
        text = Text()
        for group in self._groups:
            if text:
                text.append("\n\n")
            text.append(group.title, f"bold {look.accent}")
            for fact in group.facts:
                text.append(f"\n{fact.name}: ", look.muted)
                text.append(signs.get(fact.level, ""), colours.get(fact.level, ""))
                text.append(fact.value, colours.get(fact.level, look.text))
        self.query_one("#doctor", Static).update(text)

    def _read_log(self) -> None:
        if not self.is_current:
            return
        lines = self.backend.log()
        if lines == self._lines:
            return
        panel = self.query_one("#native-log", VerticalScroll)
        is_at_end = panel.scroll_offset.y >= panel.max_scroll_y
        self._lines = lines
        text = Text("\n".join(lines) or "nothing was said yet", self.look.muted)
        self.query_one("#log-lines", Static).update(text)
        if is_at_end:
            panel.scroll_end(animate=False)

    def action_look(self) -> None:
        self._find_facts()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard("\n".join(self._lines))

    def action_back(self) -> None:
        self.go("models")
