"""The application: routes, and what stands in front of and around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from anyio.lowlevel import checkpoint
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localspec.errors import LocalspecError
from localspec.server.about import health, list_models, metrics, one_model, openapi
from localspec.server.chat import chat_completions
from localspec.server.completions import completions
from localspec.server.embeddings import embeddings
from localspec.server.failures import ApiError, as_api_error
from localspec.server.guard import Guard
from localspec.server.metrics import Metrics
from localspec.server.models import Models, Start
from localspec.server.responses import responses
from localspec.server.service import ClientGone, Service
from localspec.server.settings import ServerSettings
from localspec.server.text_questions import apply_template, detokenize, tokenize

_log = logging.getLogger("localspec.server")

Endpoint = Callable[[Request, Service], Awaitable[Response]]

ROUTES: tuple[tuple[str, str, Endpoint], ...] = (
    ("POST", "/v1/chat/completions", chat_completions),
    ("POST", "/v1/completions", completions),
    ("POST", "/v1/responses", responses),
    ("POST", "/v1/embeddings", embeddings),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", one_model),
    ("POST", "/tokenize", tokenize),
    ("POST", "/detokenize", detokenize),
    ("POST", "/apply-template", apply_template),
    ("GET", "/health", health),
    ("GET", "/v1/health", health),
    ("GET", "/metrics", metrics),
    ("GET", "/openapi.json", openapi),
)


def make_app(settings: ServerSettings, start: Start) -> Starlette:
    """start: loads a model when it is first asked for."""
    models = Models(
        settings.models,
        start,
        slots=settings.slots,
        most_waiting=settings.limits.waiting,
        budget=settings.memory_budget,
        idle_unload_s=settings.idle_unload_s,
    )
    counters = Metrics({path for _, path, _ in ROUTES})
    service = Service(settings, models, counters)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        idle = asyncio.create_task(models.unload_idle())
        # What streams need is imported when it is first used: here, not in the first answer.
        await checkpoint()
        try:
            await _load_first(app, models)
            yield
        finally:
            idle.cancel()
            await models.close()

    guard = Middleware(Guard, settings=settings, on_response=counters.responded)
    middleware = [guard]
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            )
        )
    app = Starlette(
        routes=[
            Route(path, _served(endpoint, service), methods=[method])
            for method, path, endpoint in ROUTES
        ],
        middleware=middleware,
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


async def _load_first(app: Starlette, models: Models) -> None:
    """So that the first answer comes at once, and a file that cannot be loaded is told at once.

    The error is left in the state: who runs the server raises it.
    """
    app.state.failure = None
    try:
        async with models.use(models.places[0]):
            pass
    except LocalspecError as error:
        app.state.failure = error


def _served(endpoint: Endpoint, service: Service) -> Callable[[Request], Awaitable[Response]]:
    """`endpoint` with every failure turned into an answer, and none of them into a trace."""

    async def serve(request: Request) -> Response:
        try:
            return await endpoint(request, service)
        except ApiError as error:
            return error.as_response()
        except LocalspecError as error:
            return as_api_error(error).as_response()
        except ClientGone:
            # Nobody reads this; the number is what nginx logs for the same.
            return Response(status_code=499)
        except Exception:  # noqa: BLE001 - the last edge: the trace is logged, not sent
            _log.exception("%s %s failed", request.method, request.url.path)
            return ApiError(500, "the server failed", code="internal").as_response()

    return serve


async def _refused(request: Request, error: Exception) -> Response:
    """Paths and methods that are not there, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path[:200]}"
    message = {404: f"there is no {what}", 405: f"{what} is not allowed"}
    response = ApiError(
        error.status_code, message.get(error.status_code, error.detail), code="http"
    ).as_response()
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
