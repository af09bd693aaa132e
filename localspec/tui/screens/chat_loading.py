"""The loading part of the chat screen: pull what is missing of a pair, bring it into memory."""

from __future__ import annotations

import asyncio

from textual import on, work

from localspec.errors import LocalspecError
from localspec.events import LoadProgress, Notice
from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import FitChoice
from localspec.tui.chat_session import ChatSession
from localspec.tui.messages import Loaded, LoadFailed, LoadMoved, PullMoved
from localspec.tui.pace import Pace
from localspec.tui.screens.chat_answering import ChatAnswering
from localspec.units import format_duration, format_file_size, format_rate

_POLL_S = 0.2


class ChatLoading(ChatAnswering):
    """What is asked before the model is there waits for it."""

    def __init__(
        self, backend: Backend, session: ChatSession, history: list[str], pace: Pace
    ) -> None:
        super().__init__(backend, session, history, pace)
        self._waiting_text = ""
        """A message that was sent before the model was there."""

    def open_model(self, model: str, choice: FitChoice | None = None) -> None:
        """Load a pair, after pulling what is missing of it."""
        self._model, self._choice = model, choice or FitChoice()
        self._loaded = None
        self._activity.progress(f"opening {model}", 0.0)
        self._show_figures()
        self._prompt.focus()
        self._load()

    def remember_model(self, model: str) -> None:
        """The pair of the last session: not loaded before somebody asks for it."""
        self._model = model
        if self.is_mounted:
            self._tell_unloaded()

    def on_mount(self) -> None:
        self._tell_unloaded()

    def _tell_unloaded(self) -> None:
        if self._model and self._loaded is None and not self._is_loading:
            self._activity.say(f"{self._model} is not loaded yet", "your first message loads it")
            self._show_figures()

    @work(group="load", exclusive=True)
    async def _load(self) -> None:
        backend, model = self.backend, self._model
        try:
            if await asyncio.to_thread(backend.missing, model):
                await self._pull(model)
            view = await backend.load(
                model,
                self._choice,
                self.session.method,
                self._tell_loading,
            )
        except LocalspecError as error:
            self.post_message(LoadFailed(error))
        else:
            self.post_message(Loaded(view))

    def _tell_loading(self, event: LoadProgress | Notice) -> None:
        self.post_message(LoadMoved(event))

    async def _pull(self, model: str) -> None:
        """Wait until the files are here. Raises LocalspecError."""
        downloads = self.backend.downloads
        downloads.start(model)
        while True:
            item = next((item for item in downloads.items() if item.id == model), None)
            if item is None or item.state == "done":
                return
            if item.state in ("failed", "cancelled"):
                raise LocalspecError(item.message or "the download was stopped", hint=item.hint)
            self.post_message(PullMoved(item.done, item.total, item.rate, item.state))
            await asyncio.sleep(_POLL_S)

    @on(PullMoved)
    def _pull_moved(self, event: PullMoved) -> None:
        words = f"{format_file_size(event.done)} of {format_file_size(event.total)}"
        if event.rate:
            left = format_duration((event.total - event.done) / event.rate)
            words += f"  {format_rate(event.rate)}  {left} left"
        share = event.done / event.total if event.total else 0.0
        name = "paused (F6)" if event.state == "paused" else f"pulling {self._model}"
        self._activity.progress(name, share, words)

    @on(LoadMoved)
    def _load_moved(self, message: LoadMoved) -> None:
        event = message.event
        if isinstance(event, LoadProgress):
            self._activity.progress(f"loading the {event.role}", event.fraction)
        else:
            self._remark(event.message, event.hint, level="warn")

    @on(Loaded)
    def _now_loaded(self, event: Loaded) -> None:
        self._loaded = event.view
        self.session.chat.model = event.view.id
        if not event.view.has_draft and self.session.method == "model":
            self.session.method = "auto"
        self._activity.clear()
        self._show_figures()
        if self._waiting_text:
            text, self._waiting_text = self._waiting_text, ""
            self._send(text)

    @on(LoadFailed)
    def _load_failed(self, event: LoadFailed) -> None:
        self._loaded = None
        waiting, self._waiting_text = self._waiting_text, ""
        if waiting:
            self._prompt.put(waiting)
        self._activity.say(event.error.message, event.error.hint, level="bad")
        self._show_figures()

    @property
    def _is_loading(self) -> bool:
        return any(worker.group == "load" and worker.is_running for worker in self.workers)
