"""`POST /tokenize`, `/detokenize` and `/apply-template`, as llama-server has them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.engine.questions import PiecesOf, PromptOf, Question, TokensOf
from localspec.engine.settings import GenerateRequest
from localspec.server.bodies import DetokenizeBody, TemplateBody, TokenizeBody
from localspec.server.body_reading import read_body
from localspec.server.conversation import messages_of, tools_of
from localspec.server.requests import checked_variables
from localspec.server.service import Service


async def tokenize(request: Request, service: Service) -> Response:
    """Raises ApiError."""
    body = await read_body(request, TokenizeBody, service.settings.limits)
    question = TokensOf(body.content, body.add_special, body.parse_special)
    tokens = await _ask(service, body.model, question)
    if not body.with_pieces:
        return JSONResponse({"tokens": tokens})
    pieces = await _ask(service, body.model, PiecesOf(tuple(tokens)))
    shown = [{"id": t, "piece": _piece(p)} for t, p in zip(tokens, pieces, strict=True)]
    return JSONResponse({"tokens": shown})


async def detokenize(request: Request, service: Service) -> Response:
    """Raises ApiError."""
    body = await read_body(request, DetokenizeBody, service.settings.limits)
    pieces = await _ask(service, body.model, PiecesOf(tuple(body.tokens)))
    return JSONResponse({"content": b"".join(pieces).decode("utf-8", "replace")})


async def apply_template(request: Request, service: Service) -> Response:
    """Raises ApiError."""
    body = await read_body(request, TemplateBody, service.settings.limits)
    asked = GenerateRequest(
        messages=messages_of(body.messages),
        tools=tools_of(body.tools),
        template_variables=checked_variables(body.chat_template_kwargs),
    )
    return JSONResponse({"prompt": await _ask(service, body.model, PromptOf(asked))})


async def _ask(service: Service, model: str | None, question: Question) -> Any:
    place = service.models.find(model)
    async with service.models.use(place) as engine:
        return await engine.ask(question)


def _piece(piece: bytes) -> str | list[int]:
    """Text, or the bytes of a token that is part of a character."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)
