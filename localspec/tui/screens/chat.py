"""Chat: the transcript, the line one writes in, and the live panel."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from time import monotonic
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Input

from localspec.chats.export import figures_line
from localspec.errors import EngineCrashed, LocalspecError
from localspec.events import Answer, LoadProgress, Notice, PromptProgress, RoundDone, TextDelta
from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import FitChoice, LoadedView
from localspec.tui.chat_session import ChatSession
from localspec.tui.messages import (
    AnswerEnded,
    EngineSaid,
    Loaded,
    LoadFailed,
    LoadMoved,
    PullMoved,
)
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.answer_view import RunningAnswer, entries_of
from localspec.tui.widgets.chat_list import ChatList
from localspec.tui.widgets.chat_status import ChatStatus
from localspec.tui.widgets.entries import Remark, Thought
from localspec.tui.widgets.prompt_input import PromptInput
from localspec.tui.widgets.settings_panel import SettingsPanel
from localspec.tui.widgets.speculation_panel import HELP, SpeculationPanel
from localspec.tui.widgets.transcript import Transcript
from localspec.units import format_duration, format_file_size, format_rate

_FLUSH_EVERY_S = 1 / 15
_PANEL_EVERY_S = 0.25
_LONG_PROMPT = 256
"""Tokens to read from which a progress bar is worth showing."""
_POLL_S = 0.2


class ChatScreen(BaseScreen):
    """Everything the user does with the loaded pair."""

    NAME = "chat"
    HELP_TEXT = HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=False),
        Binding("ctrl+r", "regenerate", "Again", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+s", "drafter", "Drafter", priority=True),
        Binding("ctrl+t", "tint", "Tint", priority=True),
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+l", "chats", "Chats", priority=True),
        Binding("f2", "settings", "Settings", priority=True),
        Binding("ctrl+o", "attach", "Attach", priority=True, show=False),
        Binding("ctrl+y", "copy", "Copy answer", priority=True, show=False),
        Binding("ctrl+k", "fold", "Fold thinking", priority=True, show=False),
        Binding("ctrl+x", "export", "Export", priority=True, show=False),
        Binding("ctrl+b", "panel", "Panel", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
    ]

    def __init__(self, backend: Backend, session: ChatSession, history: list[str]) -> None:
        super().__init__(backend)
        self.session = session
        self._history = history
        self._model = ""
        self._choice = FitChoice()
        self._loaded: LoadedView | None = None
        self._current: RunningAnswer | None = None
        self._answer: Answer | None = None
        self._thinking_began: float | None = None
        self._thinking_s: float | None = None
        self._waiting_text = ""
        """A message that was sent before the model was there."""

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        yield ChatStatus(self.look)
        with Horizontal(id="chat-body"):
            yield ChatList(id="chats")
            with Vertical(id="chat-main"):
                yield Transcript(self.look, id="transcript")
                yield Activity(self.look, id="activity")
                yield Input(placeholder="path of a text file", id="attach", compact=True)
                yield PromptInput(self._history, id="prompt")
            yield SpeculationPanel(self.session.meter, self.look, id="speculation")
            yield SettingsPanel(self.session.settings, id="settings")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.set_interval(_FLUSH_EVERY_S, self._flush)
        self.set_interval(_PANEL_EVERY_S, self._show_figures)
        self.query_one(PromptInput).focus()
        self._show_conversation()

    def show_look(self, look: Look) -> None:
        transcript = self.query_one(Transcript)
        transcript.show_look(look, tint=transcript.has_tint)
        self.query_one(SpeculationPanel).show_look(look)
        self.query_one(Activity).show_look(look)
        self.query_one(ChatStatus).show_look(look)

    # --- loading ---

    def open_model(self, model: str, choice: FitChoice | None = None) -> None:
        """Load a pair, after pulling what is missing of it."""
        self._model, self._choice = model, choice or FitChoice()
        self._loaded = None
        self.query_one(Activity).progress(f"opening {model}", 0.0)
        self._show_figures()
        self.query_one(PromptInput).focus()
        self._load()

    @property
    def model(self) -> str:
        return self._model

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
        self.query_one(Activity).progress(name, share, words)

    @on(LoadMoved)
    def _load_moved(self, message: LoadMoved) -> None:
        event = message.event
        if isinstance(event, LoadProgress):
            self.query_one(Activity).progress(f"loading the {event.role}", event.fraction)
        else:
            self._remark(event.message, event.hint, level="warn")

    @on(Loaded)
    def _now_loaded(self, event: Loaded) -> None:
        self._loaded = event.view
        self.session.chat.model = event.view.id
        if not event.view.has_draft and self.session.method == "model":
            self.session.method = "auto"
        self.query_one(Activity).clear()
        self._show_figures()
        if self._waiting_text:
            text, self._waiting_text = self._waiting_text, ""
            self._send(text)

    @on(LoadFailed)
    def _load_failed(self, event: LoadFailed) -> None:
        self._loaded = None
        waiting, self._waiting_text = self._waiting_text, ""
        if waiting:
            self.query_one(PromptInput).put(waiting)
        self.query_one(Activity).say(event.error.message, event.error.hint, level="bad")
        self._show_figures()

    # --- asking and answering ---

    @on(PromptInput.Submitted)
    def _submitted(self, event: PromptInput.Submitted) -> None:
        prompt = self.query_one(PromptInput)
        if self._current is not None:
            self.query_one(Activity).say("an answer is being written", "esc stops it", level="warn")
            return
        if not self._model:
            self.query_one(Activity).say(
                "no model is chosen", "F3 shows the models; enter runs one", level="warn"
            )
            return
        prompt.remember(event.text)
        prompt.clear()
        if self._loaded is None:
            self._waiting_text = event.text
            if not any(w.group == "load" and w.is_running for w in self.workers):
                self.open_model(self._model, self._choice)
            return
        self._send(event.text)

    def _send(self, text: str) -> None:
        turn = self.session.ask(text)
        index = len(self.session.turns) - 1
        transcript = self.query_one(Transcript)
        transcript.append(*entries_of(index, turn, ""))
        transcript.follow()
        self._begin_answer()

    def _begin_answer(self) -> None:
        assert self._loaded is not None
        transcript = self.query_one(Transcript)
        self.query_one(Activity).clear()
        self._current = RunningAnswer(transcript, len(self.session.turns), self._loaded.name)
        self._answer = None
        self._thinking_began = self._thinking_s = None
        self.session.meter.begin()
        transcript.follow()
        self._generate()

    @work(group="answer", exclusive=True)
    async def _generate(self) -> None:
        session = self.session
        stream = self.backend.answer(tuple(session.turns), session.settings, session.method)
        error: LocalspecError | None = None
        plain: float | None = None
        try:
            async with aclosing(stream) as events:  # type: ignore[type-var]
                async for event in events:
                    self.post_message(EngineSaid(event))
            if session.method == "auto":
                plain = await self.backend.plain_rate()
        except LocalspecError as failure:
            error = failure
        self.post_message(AnswerEnded(error, plain))

    @on(EngineSaid)
    def _engine_said(self, message: EngineSaid) -> None:
        event, running = message.event, self._current
        if running is None:
            return
        match event:
            case TextDelta():
                self._time_thinking(event)
                running.add(event.spans)
            case RoundDone():
                self.session.meter.update(event)
            case PromptProgress():
                activity = self.query_one(Activity)
                if event.total - event.cached >= _LONG_PROMPT and event.done < event.total:
                    detail = f"{event.done:,} of {event.total:,} tokens"
                    activity.progress("reading the prompt", event.done / event.total, detail)
                else:
                    activity.clear()
            case Notice():
                running.flush()
                self.query_one(Activity).say(event.message, event.hint, level="warn")
            case Answer():
                self._answer = event
                self.session.meter.finish(event, self.session.method)

    @on(AnswerEnded)
    def _answer_ended(self, message: AnswerEnded) -> None:
        running, self._current = self._current, None
        self.session.meter.running = False
        meter = self.session.meter
        if message.plain_rate is not None and "none" not in meter.by_method:
            # What was measured in this conversation is worth more than an expectation.
            meter.plain_rate = message.plain_rate
        if running is None:
            return
        running.flush()
        if self._thinking_began is not None:
            self._thinking_s = monotonic() - self._thinking_began
        running.end_thinking(self._thinking_s)
        index = len(self.session.turns)
        turn = self.session.answered(
            self._answer, running.text, running.thinking, running.drafted, self._thinking_s
        )
        if turn is not None:
            running.finish(figures_line(turn.figures))
            self._save()
        else:
            self._forget_entries(index)
        if message.error is not None:
            self._show_failure(message.error)
        self._show_figures()

    def _show_failure(self, error: LocalspecError) -> None:
        if isinstance(error, EngineCrashed):
            lines = [str(line) for line in error.fields.get("log", [])][-3:]
            detail = "\n".join([error.message, *lines])
            self._remark(
                detail, "ctrl+r loads it again and answers anew; F8 shows the log", level="bad"
            )
        else:
            self._remark(error.message, error.hint, level="bad")

    def _time_thinking(self, delta: TextDelta) -> None:
        for span in delta.spans:
            if span.thinking and self._thinking_began is None:
                self._thinking_began = monotonic()
            elif not span.thinking and span.text.strip() and self._thinking_began is not None:
                self._thinking_s = monotonic() - self._thinking_began
                self._thinking_began = None
                if self._current is not None:
                    self._current.end_thinking(self._thinking_s)

    def _flush(self) -> None:
        if self._current is not None:
            self._current.flush()

    @work(group="save")
    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self.session.save)
        except LocalspecError as error:
            self.query_one(Activity).say(error.message, error.hint, level="bad")

    # --- keys ---

    async def action_stop(self) -> None:
        """Escape: stop the answer, or close what is open, or go back to writing."""
        if self._current is not None:
            await self.backend.stop()
        elif self.query_one("#attach").display:
            self._close_attach()
        elif self.query_one(ChatList).display:
            self._toggle(ChatList, show=False)
        elif self.query_one(SettingsPanel).display:
            self._toggle(SettingsPanel, show=False)
        elif any(w.group == "load" and w.is_running for w in self.workers):
            self.workers.cancel_group(self, "load")
            self.query_one(Activity).say("loading was stopped", "send a message to load again")
        self.query_one(PromptInput).focus()

    def action_regenerate(self) -> None:
        if self._current is not None:
            return
        if not self.session.drop_answer():
            self.query_one(Activity).say("there is nothing to answer again")
            return
        self._forget_entries(len(self.session.turns))
        if self._loaded is None:
            self._waiting_text = self._pop_question()
            self.open_model(self._model, self._choice)
            return
        self._begin_answer()

    def action_edit(self) -> None:
        """The last question comes back into the input; sending it replaces what followed."""
        if self._current is not None:
            return
        text = self._pop_question()
        if text:
            self.query_one(PromptInput).put(text)
            self.query_one(PromptInput).focus()

    def action_drafter(self) -> None:
        has_draft = self._loaded is not None and self._loaded.has_draft
        self.session.next_method(has_draft=has_draft)
        self._show_figures()

    def action_tint(self) -> None:
        transcript = self.query_one(Transcript)
        transcript.show_look(self.look, tint=not transcript.has_tint)
        word = "tinted" if transcript.has_tint else "not tinted"
        self.query_one(Activity).say(f"drafted text is {word}")

    def action_new(self) -> None:
        if self._current is not None:
            return
        self.session.start_new()
        self.query_one(SpeculationPanel).meter = self.session.meter
        self.query_one(Activity).clear()
        self._show_conversation()
        self.query_one(PromptInput).focus()

    def action_fold(self) -> None:
        thoughts = [e for e in self.query_one(Transcript).entries if isinstance(e, Thought)]
        folded = any(not thought.folded for thought in thoughts)
        for thought in thoughts:
            thought.folded = folded
            self.query_one(Transcript).refresh_entry(thought)

    @on(Transcript.FoldClicked)
    def _fold_clicked(self, event: Transcript.FoldClicked) -> None:
        event.thought.folded = not event.thought.folded
        self.query_one(Transcript).refresh_entry(event.thought)

    def action_copy(self) -> None:
        text = self.session.last_answer()
        if text is None:
            self.query_one(Activity).say("there is no answer to copy yet")
            return
        self.app.copy_to_clipboard(text)
        self.query_one(Activity).say(f"copied {len(text):,} characters")

    def action_export(self) -> None:
        try:
            path = self.session.export(Path.cwd())
        except LocalspecError as error:
            self.query_one(Activity).say(error.message, error.hint, level="bad")
        else:
            self.query_one(Activity).say(f"exported to {path}")

    def action_page(self, direction: int) -> None:
        transcript = self.query_one(Transcript)
        step = max(1, transcript.size.height - 2)
        transcript.scroll_relative(y=direction * step, animate=False)

    def action_panel(self) -> None:
        panel = self.query_one(SpeculationPanel)
        panel.set_class(not panel.display, "shown")
        panel.set_class(panel.display, "hidden")

    # --- panels ---

    def action_settings(self) -> None:
        self._toggle(SettingsPanel, show=not self.query_one(SettingsPanel).display)

    @on(SettingsPanel.Changed)
    def _settings_changed(self, event: SettingsPanel.Changed) -> None:
        self.session.settings = event.settings

    def action_chats(self) -> None:
        show = not self.query_one(ChatList).display
        self._toggle(ChatList, show=show)
        if show:
            self._list_chats("")

    @on(ChatList.Search)
    def _search_chats(self, event: ChatList.Search) -> None:
        self._list_chats(event.words)

    @work(group="chats", exclusive=True)
    async def _list_chats(self, words: str) -> None:
        entries = await asyncio.to_thread(self.backend.chats.entries, words)
        self.query_one(ChatList).show(entries)

    @on(ChatList.Chosen)
    def _chat_chosen(self, event: ChatList.Chosen) -> None:
        if self._current is not None:
            return
        try:
            self.session.resume(event.chat_id)
        except LocalspecError as error:
            self.query_one(Activity).say(error.message, error.hint, level="bad")
            return
        self.query_one(SettingsPanel).show(self.session.settings)
        self.query_one(SpeculationPanel).meter = self.session.meter
        self._toggle(ChatList, show=False)
        self._show_conversation()
        if not self._model and self.session.chat.model:
            self.open_model(self.session.chat.model)

    @on(ChatList.Deleted)
    def _chat_deleted(self, event: ChatList.Deleted) -> None:
        try:
            self.backend.chats.delete(event.chat_id)
        except LocalspecError as error:
            self.query_one(Activity).say(error.message, error.hint, level="bad")
        self._list_chats(self.query_one("#chat-search", Input).value)

    @on(ChatList.Closed)
    def _chats_closed(self) -> None:
        self._toggle(ChatList, show=False)

    def _toggle(self, kind: type[ChatList] | type[SettingsPanel], *, show: bool) -> None:
        panel = self.query_one(kind)
        panel.display = show
        either = self.query_one(ChatList).display or self.query_one(SettingsPanel).display
        self.set_class(either, "with-panel")
        if show:
            panel.query("Input, TextArea").first().focus()
        else:
            self.query_one(PromptInput).focus()

    def action_attach(self) -> None:
        field = self.query_one("#attach", Input)
        field.display = True
        field.value = ""
        field.focus()

    @on(Input.Submitted, "#attach")
    def _attached(self, event: Input.Submitted) -> None:
        try:
            words = self.session.attach(event.value)
        except LocalspecError as error:
            self.query_one(Activity).say(error.message, error.hint, level="bad")
            return
        self.query_one(Activity).say(f"{words} goes with your next message")
        self._close_attach()

    def _close_attach(self) -> None:
        self.query_one("#attach", Input).display = False
        self.query_one(PromptInput).focus()

    # --- showing ---

    def _show_conversation(self) -> None:
        name = self._loaded.name if self._loaded else self.session.chat.model
        entries = [
            entry
            for index, turn in enumerate(self.session.turns)
            for entry in entries_of(index, turn, name)
        ]
        transcript = self.query_one(Transcript)
        transcript.replace_from(0, entries)
        transcript.follow()
        self._show_figures()

    def _show_figures(self) -> None:
        if not self.query(SettingsPanel):
            return
        self.query_one(ChatStatus).show(
            self._model, self._loaded, self.session.method, self.session.meter
        )
        panel = self.query_one(SpeculationPanel)
        if panel.display:
            panel.refresh()

    def _forget_entries(self, turn: int) -> None:
        """Take the turns from `turn` on, and every remark after them, off the transcript."""
        transcript = self.query_one(Transcript)
        for place, entry in enumerate(transcript.entries):
            if entry.turn >= turn or (entry.turn < 0 and isinstance(entry, Remark)):
                transcript.replace_from(place, [])
                return

    def _pop_question(self) -> str:
        text = self.session.take_back()
        if text is not None:
            self._forget_entries(len(self.session.turns))
        return text or ""

    def _remark(self, text: str, hint: str, *, level: str) -> None:
        transcript = self.query_one(Transcript)
        transcript.append(Remark(-1, text, hint, level=level))
