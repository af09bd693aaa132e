"""What all screens share: the top bar, the backend, and the colours."""

from __future__ import annotations

from typing import ClassVar

from textual.screen import Screen

from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import Download, MachineView
from localspec.tui.messages import ScreenRequested
from localspec.tui.theme import Look, look_for
from localspec.tui.widgets.help_panel import HelpPanel, named_keys
from localspec.tui.widgets.topbar import TopBar


class BaseScreen(Screen[None]):
    """A screen with a name in the top bar and help about what it shows."""

    NAME: ClassVar[str] = ""
    HELP_TEXT: ClassVar[str] = ""
    """Markdown: what the figures mean and how they are measured."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    @property
    def look(self) -> Look:
        return look_for(self.app.current_theme)

    def top_bar(self) -> TopBar:
        return TopBar(self.NAME)

    def show_machine(self, machine: MachineView) -> None:
        """This machine is known, or known better."""
        for bar in self.query(TopBar):
            bar.machine = machine

    def show_ngrams(self, count: int) -> None:
        """The lookup caches grew."""
        for bar in self.query(TopBar):
            bar.ngrams = count

    def show_downloads(self, downloads: tuple[Download, ...]) -> None:
        """Called a few times a second while downloads change."""
        for bar in self.query(TopBar):
            bar.downloads = downloads

    def take_look(self, look: Look) -> None:
        """The theme changed."""
        for panel in self.query(HelpPanel):
            panel.show_look(look)
        self.show_look(look)

    def show_look(self, look: Look) -> None:
        """The theme changed: widgets that draw in colours of their own take the new ones."""

    def toggle_help(self) -> None:
        """Show or hide what this screen's figures mean, and its keys."""
        open_panels = self.query(HelpPanel)
        if open_panels:
            open_panels.remove()
            return
        keys = named_keys([*self.BINDINGS, *self.app.BINDINGS])
        panel = HelpPanel(self.HELP_TEXT, [(key, what) for key, what, _ in keys], self.look)
        self.mount(panel)
        panel.focus()

    def go(self, name: str, model: str = "") -> None:
        """Ask for another screen."""
        self.post_message(ScreenRequested(name, model))
