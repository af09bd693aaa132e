"""What all parts of the chat screen share: the conversation, its widgets, and showing both."""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Input

from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import FitChoice, LoadedView
from localspec.tui.chat_session import ChatSession
from localspec.tui.markdown.render import prepare
from localspec.tui.pace import Pace
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.answer_view import RunningAnswer, entries_of
from localspec.tui.widgets.chat_list import ChatList
from localspec.tui.widgets.chat_status import ChatStatus
from localspec.tui.widgets.entries import Remark
from localspec.tui.widgets.prompt_input import PromptInput
from localspec.tui.widgets.settings_panel import SettingsPanel
from localspec.tui.widgets.speculation_panel import HELP, SpeculationPanel
from localspec.tui.widgets.transcript import Transcript

_PANEL_EVERY_S = 0.25


class ChatBase(BaseScreen):
    """The widgets, and what they show."""

    NAME = "chat"
    HELP_TEXT = HELP

    _transcript: Transcript
    _activity: Activity
    _status: ChatStatus
    _panel: SpeculationPanel
    _settings_panel: SettingsPanel
    _chat_list: ChatList
    _prompt: PromptInput
    _attach_field: Input

    def __init__(
        self, backend: Backend, session: ChatSession, history: list[str], pace: Pace
    ) -> None:
        """history: what was sent before; grows here. pace: when a running answer is drawn."""
        super().__init__(backend)
        self.session = session
        self._history = history
        self._pace = pace
        self._model = ""
        self._choice = FitChoice()
        self._loaded: LoadedView | None = None
        self._current: RunningAnswer | None = None

    @property
    def model(self) -> str:
        return self._model

    def compose(self) -> ComposeResult:
        # Kept: looking a widget up costs more than most of what is done with it.
        self._status = ChatStatus(self.look)
        self._chat_list = ChatList(id="chats")
        self._transcript = Transcript(self.look, id="transcript")
        self._activity = Activity(self.look, id="activity")
        self._attach_field = Input(placeholder="path of a text file", id="attach", compact=True)
        self._prompt = PromptInput(self._history, id="prompt")
        self._panel = SpeculationPanel(self.session.meter, self.look, id="speculation")
        self._settings_panel = SettingsPanel(self.session.settings, id="settings")
        yield self.top_bar()
        yield self._status
        with Horizontal(id="chat-body"):
            yield self._chat_list
            with Vertical(id="chat-main"):
                yield self._transcript
                yield self._activity
                yield self._attach_field
                yield self._prompt
            yield self._panel
            yield self._settings_panel
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.set_interval(_PANEL_EVERY_S, self._show_figures)
        self._prepare()
        self._prompt.focus()
        self._show_conversation()

    @work(thread=True, group="prepare")
    def _prepare(self) -> None:
        prepare()

    def show_look(self, look: Look) -> None:
        self._transcript.show_look(look, tint=self._transcript.has_tint)
        self._panel.show_look(look)
        self._activity.show_look(look)
        self._status.show_look(look)

    def _show_conversation(self) -> None:
        name = self._loaded.name if self._loaded else self.session.chat.model
        entries = [
            entry
            for index, turn in enumerate(self.session.turns)
            for entry in entries_of(index, turn, name)
        ]
        self._transcript.replace_from(0, entries)
        self._transcript.follow()
        self._show_figures()

    def _show_figures(self) -> None:
        if not self.is_mounted:
            return
        self._status.show(self._model, self._loaded, self.session.method, self.session.meter)
        self._panel.update()

    def _forget_entries(self, turn: int) -> None:
        """Take the turns from `turn` on, and every remark after them, off the self._transcript."""
        for place, entry in enumerate(self._transcript.entries):
            if entry.turn >= turn or (entry.turn < 0 and isinstance(entry, Remark)):
                self._transcript.replace_from(place, [])
                return

    def _pop_question(self) -> str:
        text = self.session.take_back()
        if text is not None:
            self._forget_entries(len(self.session.turns))
        return text or ""

    def _remark(self, text: str, hint: str, *, level: str) -> None:
        self._transcript.append(Remark(-1, text, hint, level=level))
