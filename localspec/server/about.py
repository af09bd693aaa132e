"""What the server has and how it is: models, health, metrics, its own description."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from localspec.server.models import Place
from localspec.server.openapi import document
from localspec.server.service import Service


async def list_models(request: Request, service: Service) -> Response:
    return JSONResponse(
        {"object": "list", "data": [_model(place) for place in service.models.places]}
    )


async def one_model(request: Request, service: Service) -> Response:
    """Raises ApiError 404."""
    return JSONResponse(_model(service.models.find(request.path_params["model"])))


async def health(request: Request, service: Service) -> Response:
    return JSONResponse({"status": "ok"})


async def metrics(request: Request, service: Service) -> Response:
    return PlainTextResponse(
        service.metrics.text(service.models.places),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )


async def openapi(request: Request, service: Service) -> Response:
    return JSONResponse(document())


def _model(place: Place) -> dict[str, Any]:
    engine = place.model.engine
    facts = place.engine.facts if place.engine is not None else {}
    shown = ("n_ctx", "n_ctx_train", "n_vocab", "description", "n_embd", "pooling")
    drafting = {
        "draft": engine.method,
        "draft_model": engine.draft is not None,
        "draft_max": engine.draft_max,
    }
    return {
        "id": place.model.id,
        "object": "model",
        "created": place.created,
        "owned_by": "localspec",
        "loaded": place.engine is not None,
        "meta": {
            **{name: facts[name] for name in shown if name in facts},
            "embeddings": engine.embeddings,
            **({} if engine.embeddings else drafting),
        },
    }
