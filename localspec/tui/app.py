"""The application: composes the screens and routes between them; nothing else."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.theme import Theme

from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import Download, MachineView
from localspec.tui.chat_session import ChatSession
from localspec.tui.collecting import collect_if_due
from localspec.tui.commands import ActionProvider
from localspec.tui.messages import MachineFound, NgramsCounted, RunRequested, ScreenRequested
from localspec.tui.pace import Pace
from localspec.tui.screens.base import BaseScreen
from localspec.tui.screens.bench import BenchScreen
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.downloads import DownloadsScreen
from localspec.tui.screens.fit import FitScreen
from localspec.tui.screens.log import LogScreen
from localspec.tui.screens.models import ModelsScreen
from localspec.tui.state import UiState
from localspec.tui.theme import DARK_NAME, LIGHT_NAME, look_for, themes
from localspec.tui.widgets.topbar import SCREENS

_POLL_S = 0.25
_TIDY_EVERY_S = 5.0
_COUNT_EVERY_S = 20.0
_QUIET_S = 3.0
"""Seconds without a key after which nobody is taken to be waiting for one."""


class LocalspecApp(App[None]):
    """One backend, one screen for each thing to do."""

    TITLE = "localspec"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {ActionProvider}
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - the base declares it so
        (0, "-narrow"),
        (100, "-medium"),
        (160, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"screen('{name}')", title, show=False, priority=True)
            for name, title, key in SCREENS
        ),
        Binding("f1,question_mark", "help", "Help", key_display="?"),
        Binding("f10", "toggle_theme", "Dark / light", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", show=True, priority=True),
    ]

    def __init__(self, backend: Backend, *, model: str = "", screen: str = "") -> None:
        """model, screen: where to start; empty goes where the last session ended."""
        super().__init__()
        self.backend = backend
        self._state = UiState.from_dict(backend.read_state())
        for theme in themes():
            self.register_theme(theme)
        known = self._state.theme in self.available_themes
        self.theme = self._state.theme if known else DARK_NAME
        self._start_model = model
        self._start_screen = screen
        self.session = ChatSession(backend.chats)
        self.session.settings = self._state.settings
        self.session.method = self._state.method
        self._pace = Pace()
        self._downloads: tuple[Download, ...] = ()
        self._machine: MachineView | None = None
        self._ngrams = 0
        self._screens: dict[str, BaseScreen] = {}

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own variables, for when the user picks one of Textual's themes."""
        return themes()[0].variables

    async def on_mount(self) -> None:
        self._screens = self._make_screens()
        for name, screen in self._screens.items():
            self.add_mode(name, partial(_same, screen))
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.set_interval(_POLL_S, self._poll_downloads)
        self.set_interval(_TIDY_EVERY_S, self._tidy)
        self.set_interval(_COUNT_EVERY_S, self._count_ngrams)
        self._count_ngrams()
        self._find_machine()
        first = self._start_screen or self._state.screen or "models"
        await self.switch_mode(first if first in self._screens else "models")
        self._tell_screen()
        if self._start_model:
            self.call_after_refresh(self._start)
        elif self._state.model:
            self._chat.remember_model(self._state.model)

    def _make_screens(self) -> dict[str, BaseScreen]:
        backend = self.backend
        self._chat = ChatScreen(backend, self.session, self._state.history, self._pace)
        self._fit = FitScreen(backend)
        self._bench = BenchScreen(backend)
        return {
            "models": ModelsScreen(backend, welcome=not self._state.welcomed),
            "chat": self._chat,
            "fit": self._fit,
            "downloads": DownloadsScreen(backend),
            "bench": self._bench,
            "log": LogScreen(backend),
        }

    def _start(self) -> None:
        """Open what the command line named."""
        self._open(self.current_mode, self._start_model)

    def _open(self, name: str, model: str) -> None:
        """Let a screen that is shown turn to a pair."""
        match name:
            case "chat":
                self._chat.open_model(model)
            case "fit":
                self._fit.open_model(model)
            case "bench":
                self._bench.open_model(model)

    # --- routes ---

    @on(ScreenRequested)
    async def _screen_requested(self, message: ScreenRequested) -> None:
        await self._switch(message.name)
        if message.model:
            self._open(message.name, message.model)

    async def action_screen(self, name: str) -> None:
        """Fit and bench turn to the pair of the chat when they have none yet."""
        await self._switch(name)
        model = self._chat.model
        if model and (
            (name == "fit" and not self._fit.model) or (name == "bench" and not self._bench.model)
        ):
            self._open(name, model)

    async def _switch(self, name: str) -> None:
        if self.current_mode != name:
            await self.switch_mode(name)
            self._tell_screen()

    def _tell_screen(self) -> None:
        """A screen that was just mounted learns what the others know."""
        screen = self._screens[self.current_mode]
        screen.show_downloads(self.backend.downloads.items())
        screen.show_ngrams(self._ngrams)
        if self._machine is not None:
            screen.show_machine(self._machine)

    @on(RunRequested)
    async def _run_requested(self, message: RunRequested) -> None:
        self._state.welcomed = True
        await self._switch("chat")
        self._chat.open_model(message.model, message.choice)

    @on(MachineFound)
    def _machine_found(self, message: MachineFound) -> None:
        self._machine = message.machine
        for screen in self._mounted():
            screen.show_machine(message.machine)

    @on(NgramsCounted)
    def _ngrams_counted(self, message: NgramsCounted) -> None:
        self._ngrams = message.count
        for screen in self._mounted():
            screen.show_ngrams(message.count)

    def action_help(self) -> None:
        if isinstance(self.screen, BaseScreen):
            self.screen.toggle_help()

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT_NAME if self.current_theme.dark else DARK_NAME

    # --- what goes on beside the screens ---

    @work(thread=True, group="machine")
    def _find_machine(self) -> None:
        self.post_message(MachineFound(self.backend.machine()))

    @work(thread=True, group="ngrams", exclusive=True)
    def _count_ngrams(self) -> None:
        self.post_message(NgramsCounted(self.backend.learned_ngrams()))

    def _poll_downloads(self) -> None:
        downloads = self.backend.downloads.items()
        if downloads != self._downloads:
            self._downloads = downloads
            for screen in self._mounted():
                screen.show_downloads(downloads)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._pace.key()
        await super().on_event(event)

    def _tidy(self) -> None:
        if not self.session.meter.running and self._pace.since_key > _QUIET_S:
            collect_if_due()

    def _theme_changed(self, theme: Theme) -> None:
        for screen in self._mounted():
            screen.take_look(look_for(theme))

    def _mounted(self) -> list[BaseScreen]:
        return [screen for screen in self._screens.values() if screen.is_mounted]

    # --- the end ---

    async def action_quit(self) -> None:
        """Quick and safe, whatever is going on."""
        self._keep_state()
        await self.backend.close()
        self.exit()

    def _keep_state(self) -> None:
        state = self._state
        state.model = self._chat.model or state.model
        state.screen = self.current_mode
        state.theme = self.theme
        state.method, state.settings = self.session.method, self.session.settings
        self.backend.write_state(state.as_dict())


def _same(screen: BaseScreen) -> BaseScreen:
    return screen
