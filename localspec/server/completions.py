"""`POST /v1/completions`: text that goes on, without a chat template."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.engine.settings import GenerateRequest
from localspec.events import Answer, TextDelta, TokenChance
from localspec.server.answer_parts import AnswerParts, Ended, Words
from localspec.server.bodies import CompletionBody, Prompt
from localspec.server.body_reading import read_body
from localspec.server.chances import text_logprobs
from localspec.server.failures import ApiError, invalid
from localspec.server.figures import (
    FINGERPRINT,
    speculation_of,
    speed_header,
    timings_of,
    usage_of,
)
from localspec.server.requests import answers_for
from localspec.server.running import Running, Told
from localspec.server.sampling_choice import length_of, stops_of
from localspec.server.service import Service, client_of, started, while_connected
from localspec.server.sse import DONE, error_line, event_stream, line

_MOST_PROMPTS = 64
"""Each is an answer, if not several."""


async def completions(request: Request, service: Service) -> Response:
    """Raises ApiError, ClientGone."""
    body = await read_body(request, CompletionBody, service.settings.limits)
    place = service.generator(body.model)
    prompts = prompts_of(body.prompt, "prompt")
    requests: list[GenerateRequest] = []
    for prompt in prompts:
        base = GenerateRequest(
            prompt=prompt if isinstance(prompt, str) else "",
            prompt_tokens=() if isinstance(prompt, str) else prompt,
            max_tokens=length_of(body.max_tokens, body.n_predict),
            stop=stops_of(body.stop),
            top_logprobs=body.logprobs,
        )
        requests += answers_for(base, body, place, service, n=body.n or 1)
    echoes = _echoes(body, prompts)
    n = body.n or 1
    running = service.run(place, requests, client_of(request, body), "prompt")
    head = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time()),
        "model": place.model.id,
        "system_fingerprint": FINGERPRINT,
    }
    if body.stream:
        events = await started(request, running)
        wants_usage = body.stream_options is not None and body.stream_options.include_usage
        return event_stream(_chunks(events, running, echoes, head, n, wants_usage=wants_usage))
    try:
        whole = await while_connected(request, _collected(running, echoes))
    finally:
        running.stop()
    answers = [text.ended.answer for text in whole if text.ended]
    content = {
        **head,
        "choices": [
            _choice(i, text.text, text.ended, text.chances, len(echoes[i]))
            for i, text in enumerate(whole)
        ],
        "usage": _usage(answers, n),
        "timings": timings_of(answers[0]),
        "speculation": speculation_of(answers[0]),
    }
    return JSONResponse(content, headers=speed_header(answers))


def prompts_of(given: Prompt, param: str, most: int = _MOST_PROMPTS) -> list[str | tuple[int, ...]]:
    """Each prompt as text or as token ids. Raises ApiError 400 for an empty one, and for more than
    `most`."""
    prompts: list[str | tuple[int, ...]]
    if isinstance(given, str):
        prompts = [given]
    elif given and isinstance(given[0], int):
        prompts = [tuple(item for item in given if isinstance(item, int))]
    else:
        prompts = [p if isinstance(p, str) else tuple(p) for p in given if not isinstance(p, int)]
    if not prompts or not all(prompts):
        raise invalid(f"{param}: there is nothing in it", param, "invalid_value")
    if len(prompts) > most:
        raise invalid(f"{param}: more than {most} at once", param, "invalid_value")
    for prompt in prompts:
        if not isinstance(prompt, str) and not all(0 <= token < 2**31 for token in prompt):
            raise invalid(f"{param}: a number that is no token", param, "invalid_value")
    return prompts


@dataclass(slots=True)
class _Text:
    text: str
    ended: Ended | None = None
    chances: list[TokenChance] = field(default_factory=list)


def _echoes(body: CompletionBody, prompts: list[str | tuple[int, ...]]) -> list[str]:
    """What stands before each answer."""
    if not body.echo:
        return [""] * (len(prompts) * (body.n or 1))
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise invalid("echo: only for prompts that are text", "echo", "invalid_value")
    return [str(prompt) for prompt in prompts for _ in range(body.n or 1)]


async def _collected(running: Running, echoes: list[str]) -> list[_Text]:
    parts = [AnswerParts() for _ in echoes]
    texts = [_Text(echo) for echo in echoes]
    async for index, event in running.events():
        if isinstance(event, TextDelta):
            texts[index].chances += event.chances
        for part in parts[index].feed(event):
            if isinstance(part, Words):
                texts[index].text += part.text
            elif isinstance(part, Ended):
                texts[index].ended = part
    return texts


async def _chunks(
    events: AsyncIterator[Told],
    running: Running,
    echoes: list[str],
    head: dict[str, Any],
    n: int,
    *,
    wants_usage: bool,
) -> AsyncIterator[bytes]:
    if wants_usage:
        head = {**head, "usage": None}
    parts = [AnswerParts() for _ in echoes]
    answers: dict[int, Answer] = {}
    chances: list[list[TokenChance]] = [[] for _ in echoes]
    said = [len(echo) for echo in echoes]
    try:
        for index, echo in enumerate(echoes):
            if echo:
                yield line({**head, "choices": [_choice(index, echo)]})
        async for index, event in events:
            if isinstance(event, TextDelta):
                chances[index] += event.chances
            for part in parts[index].feed(event):
                if isinstance(part, Words):
                    choice = _choice(index, part.text, None, chances[index], said[index])
                    yield line({**head, "choices": [choice]})
                    chances[index] = []
                    said[index] += len(part.text)
                elif isinstance(part, Ended):
                    answers[index] = part.answer
                    figures = {
                        "timings": timings_of(part.answer),
                        "speculation": speculation_of(part.answer),
                    }
                    yield line({**head, "choices": [_choice(index, "", part)], **figures})
        if wants_usage:
            usage = _usage([answers[index] for index in sorted(answers)], n)
            yield line({**head, "choices": [], "usage": usage})
        yield DONE
    except ApiError as error:
        yield error_line(error)
        yield DONE
    finally:
        running.stop()


def _choice(
    index: int,
    text: str,
    ended: Ended | None = None,
    chances: Sequence[TokenChance] = (),
    offset: int = 0,
) -> dict[str, Any]:
    return {
        "index": index,
        "text": text,
        "logprobs": text_logprobs(chances, offset) if chances else None,
        "finish_reason": ended.reason if ended else None,
    }


def _usage(answers: list[Answer], n: int) -> dict[str, Any]:
    """Every prompt counts once."""
    usage = usage_of(answers)
    prompt = sum(answer.prompt_tokens for answer in answers[::n])
    usage["prompt_tokens"] = prompt
    usage["total_tokens"] = prompt + usage["completion_tokens"]
    return usage
