"""`POST /v1/responses`, without a memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.events import TextDelta
from localspec.server.answer_parts import AnswerParts
from localspec.server.body_reading import read_body
from localspec.server.failures import ApiError
from localspec.server.figures import speed_header
from localspec.server.requests import ChatPlan, plan_chat
from localspec.server.response_items import ResponseWriter
from localspec.server.responses_bodies import ResponsesBody, as_chat
from localspec.server.running import Running, Told
from localspec.server.service import Service, client_of, started, while_connected
from localspec.server.sse import event_stream, line


async def responses(request: Request, service: Service) -> Response:
    """Raises ApiError, ClientGone."""
    body = await read_body(request, ResponsesBody, service.settings.limits)
    place = service.generator(body.model)
    plan = plan_chat(as_chat(body), place, service)
    running = service.run(place, plan.requests, client_of(request, body), "input")
    writer = ResponseWriter(_settings(body, place.model.id))
    if body.stream:
        events = await started(request, running)
        return event_stream(_lines(events, running, plan, writer))
    try:
        await while_connected(request, _collect(running, plan, writer))
    finally:
        running.stop()
    return JSONResponse(writer.response(), headers=speed_header(writer.answers))


def _parts(plan: ChatPlan) -> AnswerParts:
    return AnswerParts(plan.tools, several=plan.several_calls)


async def _collect(running: Running, plan: ChatPlan, writer: ResponseWriter) -> None:
    parts = _parts(plan)
    async for _, event in running.events():
        if isinstance(event, TextDelta):
            writer.note(event.chances)
        for part in parts.feed(event):
            writer.take(part)


async def _lines(
    events: AsyncIterator[Told], running: Running, plan: ChatPlan, writer: ResponseWriter
) -> AsyncIterator[bytes]:
    parts = _parts(plan)
    try:
        for told in writer.begin():
            yield _line(told)
        async for _, event in events:
            if isinstance(event, TextDelta):
                writer.note(event.chances)
            for part in parts.feed(event):
                for told in writer.take(part):
                    yield _line(told)
    except ApiError as error:
        yield _line(writer.failed(error))
    finally:
        running.stop()


def _line(told: dict[str, Any]) -> bytes:
    return line(told, event=str(told["type"]))


def _settings(body: ResponsesBody, model: str) -> dict[str, Any]:
    """The part of the response that repeats the request."""
    asked = body.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "model": model,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": asked.get("reasoning", {"effort": None, "summary": None}),
        "store": False,
        "temperature": body.temperature,
        "text": asked.get("text", {"format": {"type": "text"}}),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_logprobs": body.top_logprobs or 0,
        "top_p": body.top_p,
        "truncation": "disabled",
        "user": body.user,
    }
