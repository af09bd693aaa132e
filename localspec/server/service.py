"""What every endpoint needs: the models, the counters, the settings, and who is asking."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from localspec.engine.settings import GenerateRequest
from localspec.server.bodies import EmbeddingBody, SamplingBody
from localspec.server.failures import invalid
from localspec.server.metrics import Metrics
from localspec.server.models import Models, Place
from localspec.server.running import Running, Told
from localspec.server.settings import ServerSettings

T = TypeVar("T")
_log = logging.getLogger("localspec.server")


@dataclass(frozen=True, slots=True)
class Service:
    settings: ServerSettings
    models: Models
    metrics: Metrics

    def generator(self, name: str | None) -> Place:
        """The model that `name` means. Raises ApiError 404, and 400 for one that does not
        generate."""
        place = self.models.find(name)
        if place.model.engine.embeddings:
            raise invalid(
                f"model: {place.model.id} is served for embeddings and does not generate text",
                "model",
                "no_generation",
            )
        return place

    def embedder(self, name: str | None) -> Place:
        """The model that `name` means. Raises ApiError 404, and 400 for one that generates."""
        place = self.models.find(name)
        if not place.model.engine.embeddings:
            raise invalid(
                f"model: {place.model.id} is served for generating; an embedding model gives "
                "embeddings, or one that is served with --embeddings",
                "model",
                "no_embeddings",
            )
        return place

    def run(
        self,
        place: Place,
        requests: Sequence[GenerateRequest],
        client: str,
        prompt_param: str = "messages",
    ) -> Running:
        """prompt_param: what the request calls its prompt. Raises ApiError when more answers are
        asked for than the server gives."""
        most = self.settings.limits.choices
        if len(requests) > most:
            raise invalid(f"n: at most {most} answers", "n", "invalid_value")
        if self.settings.log_prompts:
            for asked in requests:
                what = [(m.role, m.content) for m in asked.messages] or asked.prompt
                _log.info("%s is asked %r", place.model.id, what or asked.prompt_tokens)
        return Running(self.models, place, requests, client, self.metrics, prompt_param)


class ClientGone(Exception):
    """The client hung up; nobody reads an answer any more."""


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client hangs up first.

    The body must have been read. Raises ClientGone.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        working.cancel()
        watching.cancel()


async def started(request: Request, running: Running) -> AsyncIterator[Told]:
    """Events of `running`, whose first has come already.

    So an answer that cannot begin is an error with a status of its own and not the first line of a
    stream. Raises ApiError, ClientGone.
    """
    events = running.events()
    try:
        first = await while_connected(request, anext(events))
    except BaseException:
        running.stop()
        raise
    return _chained(first, events)


def client_of(request: Request, body: SamplingBody | EmbeddingBody) -> str:
    """Who is asking, for taking turns: the user it names, its key, or its address."""
    if body.user:
        return f"user:{body.user[:256]}"
    key = request.headers.get("authorization")
    if key:
        return f"key:{hashlib.sha256(key.encode()).hexdigest()}"
    return f"host:{request.client.host}" if request.client else "unknown"


async def _chained(first: Told, rest: AsyncIterator[Told]) -> AsyncIterator[Told]:
    yield first
    async for event in rest:
        yield event


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
