"""The first start on a machine: what was found, and what to do first."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from localspec.tui.backend.views import MachineView
from localspec.tui.theme import Look
from localspec.tui.widgets.topbar import machine_words


class Welcome(Static):
    """A panel above the table; Escape or the first run takes it away for good."""

    def __init__(self, look: Look) -> None:
        super().__init__(id="welcome")
        self.border_title = "Welcome"
        self.border_subtitle = "esc closes"
        self.look = look
        self._machine: MachineView | None = None

    def on_mount(self) -> None:
        self._draw()

    def show(self, machine: MachineView) -> None:
        self._machine = machine
        self._draw()

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self._draw()

    def _draw(self) -> None:
        look = self.look
        text = Text()
        if self._machine is None:
            text.append("Looking at this machine…", look.muted)
        else:
            text.append("Found: ", look.muted)
            text.append(" · ".join(machine_words(self._machine)), look.text)
            if self._machine.cpu:
                text.append(f" · {self._machine.cpu}", look.text)
            if self._machine.build:
                text.append(f" · {self._machine.build}", look.muted)
            if self._machine.advice:
                text.append(f"\n! {self._machine.advice}. This mends it:\n", look.warn)
                text.append(f"  {self._machine.command}", f"bold {look.text}")
        text.append("\nChoose a pair and press ")
        text.append("⏎", f"bold {look.accent}")
        text.append(": it is fetched, loaded, and answers. ")
        text.append("smollm2-135m", f"bold {look.text}")
        text.append(" is the smallest (98 MB). ")
        text.append("?", f"bold {look.accent}")
        text.append(" explains every screen.")
        self.update(text)
