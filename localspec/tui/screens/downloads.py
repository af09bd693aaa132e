"""Downloads: both files of each pair, with pause, resume, cancel and retry."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from localspec.tui.backend.views import Download
from localspec.tui.messages import RunRequested
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.download_card import DownloadCard

_HELP = """\
**Downloads** are fetched both files at once, each verified by its sha256 before it gets its name.

- What arrived is never fetched twice: after a pause, a lost connection, or closing the program, \
it goes on where it was.
- **rate** is smoothed over a few seconds; **left** is what remains at that rate.
- Downloads that run when the program is closed go on at the next start; paused ones stay paused.
"""
_NOTHING = "Nothing is on its way. On the Models screen (F3) p pulls a pair."


class DownloadsScreen(BaseScreen):
    """A card for each pair; the keys act on the focused one."""

    NAME = "downloads"
    HELP_TEXT = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause / resume"),
        Binding("r", "retry", "Retry"),
        Binding("x", "cancel", "Cancel"),
        Binding("delete", "forget", "Take off the list"),
        Binding("enter", "run", "Run"),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Previous", show=False),
        Binding("escape", "back", "Back"),
    ]

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        with VerticalScroll(id="downloads-body", classes="panel", can_focus=False):
            yield Static(_NOTHING, id="no-downloads")
        yield Activity(self.look, id="activity")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#downloads-body").border_title = "Downloads"
        self.show_downloads(self.backend.downloads.items())

    def on_screen_resume(self) -> None:
        self._focus_card()

    def _focus_card(self) -> None:
        if not isinstance(self.focused, DownloadCard):
            for card in self.query(DownloadCard):
                card.focus()
                break

    def show_look(self, look: Look) -> None:
        for card in self.query(DownloadCard):
            card.show_look(look)
        self.query_one(Activity).show_look(look)

    def show_downloads(self, downloads: tuple[Download, ...]) -> None:
        super().show_downloads(downloads)
        if not self.query("#downloads-body"):
            return
        body = self.query_one("#downloads-body")
        cards = {card.item.id: card for card in self.query(DownloadCard)}
        wanted = {item.id for item in downloads}
        for model, card in cards.items():
            if model not in wanted:
                card.remove()
        for item in downloads:
            if item.id in cards:
                cards[item.id].show(item)
            else:
                # The newest on top.
                body.mount(DownloadCard(item, self.look), before=0)
        self.query_one("#no-downloads").display = not downloads
        if downloads and self.focused is None:
            self.call_after_refresh(self._focus_card)

    # --- keys ---

    @property
    def chosen(self) -> Download | None:
        """Of the focused card, or of the only one."""
        if isinstance(self.focused, DownloadCard):
            return self.focused.item
        cards = list(self.query(DownloadCard))
        return cards[0].item if len(cards) == 1 else None

    def action_pause(self) -> None:
        item = self.chosen
        if item is None:
            return
        if item.state == "paused":
            self.backend.downloads.resume(item.id)
        else:
            self.backend.downloads.pause(item.id)
        self._look_again()

    def action_retry(self) -> None:
        item = self.chosen
        if item is not None and item.state in ("failed", "cancelled"):
            self.backend.downloads.start(item.id)
            self._look_again()

    def action_cancel(self) -> None:
        item = self.chosen
        if item is not None:
            self.backend.downloads.cancel(item.id)
            self._look_again()

    def action_forget(self) -> None:
        item = self.chosen
        if item is None:
            return
        if item.is_active:
            self.query_one(Activity).say("it is still on its way", "x cancels it first")
            return
        self.backend.downloads.forget(item.id)
        self._look_again()

    def action_run(self) -> None:
        item = self.chosen
        if item is not None:
            self.post_message(RunRequested(item.id))

    def action_back(self) -> None:
        self.go("models")

    def _look_again(self) -> None:
        self.show_downloads(self.backend.downloads.items())
