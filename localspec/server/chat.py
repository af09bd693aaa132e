"""`POST /v1/chat/completions`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.events import Answer, TextDelta, TokenChance
from localspec.server.answer_parts import AnswerParts, Ended, Part, Words
from localspec.server.bodies import ChatBody
from localspec.server.body_reading import read_body
from localspec.server.chances import chat_logprobs
from localspec.server.failures import ApiError
from localspec.server.figures import FINGERPRINT, speculation_of, speed_header, timings_of, usage_of
from localspec.server.requests import ChatPlan, plan_chat
from localspec.server.running import Running, Told
from localspec.server.service import Service, client_of, started, while_connected
from localspec.server.sse import DONE, error_line, event_stream, line
from localspec.server.tools.calls import ToolCall


async def chat_completions(request: Request, service: Service) -> Response:
    """Raises ApiError, ClientGone."""
    body = await read_body(request, ChatBody, service.settings.limits)
    place = service.generator(body.model)
    plan = plan_chat(body, place, service)
    running = service.run(place, plan.requests, client_of(request, body))
    head = {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time()),
        "model": place.model.id,
        "system_fingerprint": FINGERPRINT,
    }
    if body.stream:
        events = await started(request, running)
        wants_usage = body.stream_options is not None and body.stream_options.include_usage
        return event_stream(_chunks(events, running, plan, head, wants_usage=wants_usage))
    try:
        whole = await while_connected(request, _collected(running, plan))
    finally:
        running.stop()
    answers = [choice.ended.answer for choice in whole if choice.ended]
    content: dict[str, Any] = {
        **head,
        "choices": [choice.as_dict(index) for index, choice in enumerate(whole)],
        "usage": usage_of(answers),
        "timings": timings_of(answers[0]),
        "speculation": speculation_of(answers[0]),
    }
    return JSONResponse(content, headers=speed_header(answers))


@dataclass(slots=True)
class _Choice:
    """One whole answer."""

    words: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    chances: list[TokenChance] = field(default_factory=list)
    ended: Ended | None = None

    def take(self, part: Part) -> None:
        if isinstance(part, Words):
            (self.reasoning if part.reasoning else self.words).append(part.text)
        elif isinstance(part, ToolCall):
            self.calls.append(part)
        else:
            self.ended = part

    def as_dict(self, index: int) -> dict[str, Any]:
        text = "".join(self.words)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text if text or not self.calls else None,
            "refusal": None,
        }
        if self.reasoning:
            message["reasoning_content"] = "".join(self.reasoning).strip()
        if self.calls:
            message["tool_calls"] = [call.as_dict() for call in self.calls]
        reason = self.ended.reason if self.ended else None
        return {
            "index": index,
            "message": message,
            "logprobs": chat_logprobs(self.chances),
            "finish_reason": reason,
        }


def _parts(plan: ChatPlan) -> list[AnswerParts]:
    return [
        AnswerParts(plan.tools, several=plan.several_calls, reasoning_apart=plan.reasoning_apart)
        for _ in plan.requests
    ]


async def _collected(running: Running, plan: ChatPlan) -> list[_Choice]:
    parts = _parts(plan)
    choices = [_Choice() for _ in plan.requests]
    async for index, event in running.events():
        if isinstance(event, TextDelta):
            choices[index].chances += event.chances
        for part in parts[index].feed(event):
            choices[index].take(part)
    return choices


async def _chunks(
    events: AsyncIterator[Told],
    running: Running,
    plan: ChatPlan,
    head: dict[str, Any],
    *,
    wants_usage: bool,
) -> AsyncIterator[bytes]:
    """The lines of a stream. The slots are given back when nobody iterates any more."""
    head = {**head, "object": "chat.completion.chunk"}
    if wants_usage:
        head["usage"] = None
    parts = _parts(plan)
    calls = [0] * len(parts)
    chances: list[list[TokenChance]] = [[] for _ in parts]
    answers: dict[int, Answer] = {}
    try:
        for index in range(len(parts)):
            yield _chunk(head, index, {"role": "assistant", "content": ""})
        async for index, event in events:
            if isinstance(event, TextDelta):
                chances[index] += event.chances
            for part in parts[index].feed(event):
                if isinstance(part, Words):
                    name = "reasoning_content" if part.reasoning else "content"
                    yield _chunk(head, index, {name: part.text}, chances=chances[index])
                    chances[index] = []
                elif isinstance(part, ToolCall):
                    yield _chunk(head, index, {"tool_calls": [part.as_dict(calls[index])]})
                    calls[index] += 1
                else:
                    answers[index] = part.answer
                    yield _chunk(head, index, {}, part, chances[index])
        if wants_usage:
            usage = usage_of([answers[index] for index in sorted(answers)])
            yield line({**head, "choices": [], "usage": usage})
        yield DONE
    except ApiError as error:
        yield error_line(error)
        yield DONE
    finally:
        running.stop()


def _chunk(
    head: dict[str, Any],
    index: int,
    delta: dict[str, Any],
    ended: Ended | None = None,
    chances: Sequence[TokenChance] = (),
) -> bytes:
    choice = {
        "index": index,
        "delta": delta,
        "logprobs": chat_logprobs(chances),
        "finish_reason": ended.reason if ended else None,
    }
    figures = {}
    if ended is not None:
        figures["timings"] = timings_of(ended.answer)
        figures["speculation"] = speculation_of(ended.answer)
    return line({**head, "choices": [choice], **figures})
