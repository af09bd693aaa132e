"""The answering part of the chat screen: from a message that is sent to a turn that is kept."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from time import monotonic

from textual import on, work

from localspec.chats.export import figures_line
from localspec.errors import EngineCrashed, LocalspecError
from localspec.events import Answer, Notice, PromptProgress, RoundDone, TextDelta
from localspec.tui.backend.contract import Backend
from localspec.tui.chat_session import ChatSession
from localspec.tui.messages import AnswerEnded, EngineSaid
from localspec.tui.pace import Pace
from localspec.tui.screens.chat_base import ChatBase
from localspec.tui.widgets.answer_view import RunningAnswer, entries_of

_FLUSH_EVERY_S = 1 / 15
_LONG_PROMPT = 256
"""Tokens to read from which a progress bar is worth showing."""


class ChatAnswering(ChatBase):
    """One answer at a time, shown as it comes."""

    def __init__(
        self, backend: Backend, session: ChatSession, history: list[str], pace: Pace
    ) -> None:
        super().__init__(backend, session, history, pace)
        self._answer: Answer | None = None
        self._thinking_began: float | None = None
        self._thinking_s: float | None = None

    def on_mount(self) -> None:
        self.set_interval(_FLUSH_EVERY_S, self._flush)

    def _send(self, text: str) -> None:
        turn = self.session.ask(text)
        index = len(self.session.turns) - 1
        self._transcript.append(*entries_of(index, turn, ""))
        self._transcript.follow()
        self._begin_answer()

    def _begin_answer(self) -> None:
        assert self._loaded is not None
        self._activity.clear()
        self._current = RunningAnswer(self._transcript, len(self.session.turns), self._loaded.name)
        self._answer = None
        self._thinking_began = self._thinking_s = None
        self.session.meter.begin()
        self._transcript.follow()
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
                activity = self._activity
                if event.total - event.cached >= _LONG_PROMPT and event.done < event.total:
                    detail = f"{event.done:,} of {event.total:,} tokens"
                    activity.progress("reading the prompt", event.done / event.total, detail)
                else:
                    activity.clear()
            case Notice():
                running.flush()
                self._activity.say(event.message, event.hint, level="warn")
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
            if message.error is None:
                self._activity.say("nothing was said", "ctrl+r asks again")
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
        if self._current is not None and self._pace.may_draw():
            self._current.flush()

    @work(group="save")
    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self.session.save)
        except LocalspecError as error:
            self._activity.say(error.message, error.hint, level="bad")
