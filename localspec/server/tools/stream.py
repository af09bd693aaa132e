"""Calls found in an answer while it grows; everything else passes through as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localspec.engine.text_stream_runs import held_back
from localspec.server.tools.calls import NoCall, ToolCall
from localspec.server.tools.formats import FORMATS, CallFormat, bare_calls

_STARTS = tuple(form.start for form in FORMATS)


class ToolStream:
    """Feeds on the answer's text; gives back text, and calls once they are complete.

    What begins like a call and is none comes out as text, late but unchanged.

    tools: what was offered, as the Chat Completions API describes it.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._schemas = {
            tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools
        }
        self._waiting = ""
        self._open: CallFormat | None = None
        self._is_start = True
        """Whether nothing but blanks has come: a bare object may be a call there."""
        self._is_bare = False

    def feed(self, text: str) -> list[str | ToolCall]:
        self._waiting += text
        found: list[str | ToolCall] = []
        while self._step(found):
            pass
        return found

    def flush(self) -> list[str | ToolCall]:
        """The answer is over: what was held back."""
        rest, self._waiting = self._waiting, ""
        form, self._open = self._open, None
        try:
            if self._is_bare:
                return list(bare_calls(rest, self._schemas))
            if form is not None:
                calls = form.read(rest[len(form.start) :], self._schemas)
                return list(calls) or [rest]
        except NoCall:
            pass
        return [rest] if rest else []

    def _step(self, found: list[str | ToolCall]) -> bool:
        """Decide about the front of what waits; False when more text is needed."""
        if self._is_bare:
            return False
        if self._open is not None:
            return self._close(self._open, found)
        text = self._waiting
        starts = [(place, form) for form in FORMATS if (place := text.find(form.start)) >= 0]
        if starts:
            place, self._open = min(starts, key=lambda start: start[0])
            self._release(place, found, before_call=True)
            return True
        if self._is_start and text.lstrip().startswith("{"):
            self._is_bare = True
            return False
        self._release(len(text) - _held_back(text), found)
        return False

    def _close(self, form: CallFormat, found: list[str | ToolCall]) -> bool:
        end = self._waiting.find(form.end, len(form.start)) if form.end else -1
        if end < 0:
            return False
        inside = self._waiting[len(form.start) : end]
        whole = end + len(form.end)
        self._open = None
        try:
            calls = form.read(inside, self._schemas)
        except NoCall:
            calls = []
        if not calls:
            self._release(whole, found)
            return True
        found += calls
        self._waiting = self._waiting[whole:]
        self._is_start = False
        return True

    def _release(
        self, count: int, found: list[str | ToolCall], *, before_call: bool = False
    ) -> None:
        text, self._waiting = self._waiting[:count], self._waiting[count:]
        if text.strip():
            self._is_start = False
        # Blanks between text and a call belong to neither.
        text = text.rstrip() if before_call else text
        if text:
            found.append(text)


def _held_back(text: str) -> int:
    """Length of the end of `text` that may become a start mark, and of the blanks before it."""
    whole = len(text) - held_back(text, _STARTS)
    return len(text) - len(text[:whole].rstrip())
