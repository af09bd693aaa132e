"""`POST /v1/embeddings`."""

from __future__ import annotations

import base64
import logging
import sys
from array import array

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.engine.settings import Embeddings, EmbedRequest
from localspec.errors import PromptTooLong, UsageError
from localspec.server.bodies import EmbeddingBody
from localspec.server.body_reading import read_body
from localspec.server.completions import prompts_of
from localspec.server.failures import invalid
from localspec.server.models import Place
from localspec.server.service import Service, client_of, while_connected

_MOST_TEXTS = 2048
_log = logging.getLogger("localspec.server")


async def embeddings(request: Request, service: Service) -> Response:
    """Raises ApiError, ClientGone."""
    body = await read_body(request, EmbeddingBody, service.settings.limits)
    place = service.embedder(body.model)
    texts = tuple(prompts_of(body.input, "input", _MOST_TEXTS))
    if service.settings.log_prompts:
        _log.info("%s is to embed %r", place.model.id, texts)
    asked = EmbedRequest(texts, body.dimensions)
    work = _embed(service, place, asked, client_of(request, body))
    found = await while_connected(request, work)
    total = sum(found.tokens)
    service.metrics.embedded(place.model.id, total)
    as_text = body.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _shown(vector, as_text=as_text)}
        for index, vector in enumerate(found.vectors)
    ]
    usage = {"prompt_tokens": total, "total_tokens": total}
    return JSONResponse({"object": "list", "data": data, "model": place.model.id, "usage": usage})


async def _embed(service: Service, place: Place, asked: EmbedRequest, client: str) -> Embeddings:
    try:
        async with place.queue.slot(client), service.models.use(place) as engine:
            return await engine.embed(asked)
    except PromptTooLong as error:
        message = f"input: {error.message} ({error.hint})"
        raise invalid(message, "input", "context_length_exceeded") from None
    except UsageError as error:
        param = "dimensions" if error.message.startswith("dimensions") else "input"
        raise invalid(error.message, param, "invalid_value") from None


def _shown(vector: bytes, *, as_text: bool) -> str | list[float]:
    """As OpenAI has it: a list, or little-endian float32 in base64."""
    floats = array("f", vector)
    if not as_text:
        return floats.tolist()
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
