"""`POST /v1/embeddings`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from localspec.server.bodies import EmbeddingBody
from localspec.server.body_reading import read_body
from localspec.server.completions import prompts_of
from localspec.server.failures import invalid
from localspec.server.service import Service


async def embeddings(request: Request, service: Service) -> Response:
    """Raises ApiError 400: the models served here generate text."""
    body = await read_body(request, EmbeddingBody, service.settings.limits)
    place = service.models.find(body.model)
    prompts_of(body.input, "input")
    raise invalid(f"model: {place.model.id} gives no embeddings", "model", "no_embeddings")
