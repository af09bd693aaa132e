"""From the engine's events to what a client is told: answer, reasoning, calls, the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localspec.engine.client import GenerationEvent
from localspec.events import Answer, TextDelta
from localspec.server.tools.calls import ToolCall
from localspec.server.tools.stream import ToolStream


@dataclass(frozen=True, slots=True)
class Words:
    """New text."""

    text: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    answer: Answer
    reason: str
    """`stop`, `length` or `tool_calls`."""


Part = Words | ToolCall | Ended


class AnswerParts:
    """One answer, part by part.

    tools: what was offered; without any, nothing is read as a call. several: whether more than one
    call is passed on. reasoning_apart: whether thinking is told apart from the answer.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        several: bool = True,
        reasoning_apart: bool = True,
    ) -> None:
        self._stream = ToolStream(tools) if tools else None
        self._several = several
        self._apart = reasoning_apart
        self._calls = 0

    def feed(self, event: GenerationEvent) -> list[Part]:
        if isinstance(event, TextDelta):
            found: list[Part] = []
            for span in event.spans:
                found += self._words(span.text, span.thinking)
            return _joined(found)
        if isinstance(event, Answer):
            rest = self._kept(self._stream.flush()) if self._stream else []
            return [*rest, Ended(event, self._reason(event))]
        return []

    def _words(self, text: str, thinking: bool) -> list[Part]:
        if thinking:
            return [Words(text, self._apart)]
        if self._stream is None:
            return [Words(text)]
        return self._kept(self._stream.feed(text))

    def _kept(self, found: Sequence[str | ToolCall]) -> list[Part]:
        parts: list[Part] = []
        for item in found:
            if isinstance(item, str):
                parts.append(Words(item))
            elif self._several or not self._calls:
                self._calls += 1
                parts.append(item)
        return parts

    def _reason(self, answer: Answer) -> str:
        if self._calls and answer.finish_reason != "length":
            return "tool_calls"
        return "length" if answer.finish_reason in ("length", "context") else "stop"


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbouring words of one kind become one part: fewer messages, the same text."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Words) and isinstance(last, Words) and last.reasoning == part.reasoning:
            joined[-1] = Words(last.text + part.text, part.reasoning)
        else:
            joined.append(part)
    return joined
