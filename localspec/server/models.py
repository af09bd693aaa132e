"""The models a server has: loaded when they are asked for, unloaded when others need the room."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic, time

from localspec.engine.client import EngineClient
from localspec.errors import DoesNotFit, LocalspecError
from localspec.server.admission import FairQueue
from localspec.server.failures import ApiError
from localspec.server.settings import ServedModel
from localspec.units import format_bytes

_log = logging.getLogger("localspec.server")

Start = Callable[[ServedModel], Awaitable[EngineClient]]


@dataclass(slots=True)
class Place:
    """One served model and what is loaded of it."""

    model: ServedModel
    queue: FairQueue
    created: int = field(default_factory=lambda: int(time()))
    engine: EngineClient | None = None
    loading: asyncio.Task[EngineClient] | None = None
    users: int = 0
    last_used: float = 0.0
    loads: int = 0
    _template: str | None = None

    @property
    def chat_template(self) -> str:
        """The template in the model file; "" when it has none. Raises BadModelFile."""
        if self._template is None:
            from localspec.ggufmeta.header import read_header

            header = read_header(self.model.engine.target.path)
            self._template = str(header.metadata.get("tokenizer.chat_template") or "")
        return self._template


class Models:
    """Owns the engines.

    start: loads one model. budget: bytes that all loaded models may need together; None never
    unloads for want of room.
    """

    def __init__(
        self,
        served: Sequence[ServedModel],
        start: Start,
        *,
        slots: int,
        most_waiting: int,
        budget: int | None = None,
        idle_unload_s: float | None = None,
    ) -> None:
        self.places = [Place(model, FairQueue(slots, most_waiting)) for model in served]
        self._start = start
        self._budget = budget
        self._idle_unload_s = idle_unload_s
        self._room = asyncio.Condition()
        # One at a time: two models that wait for each other's room would wait for ever.
        self._load_turn = asyncio.Lock()
        self._closed = False

    def find(self, name: str | None) -> Place:
        """The model called `name`; the first one without a name. Raises ApiError 404."""
        if not name:
            return self.places[0]
        for place in self.places:
            if name == place.model.id or name in place.model.aliases:
                return place
        known = ", ".join(place.model.id for place in self.places)
        raise ApiError(
            404,
            f"there is no model {name[:200]!r} here; there is {known}",
            param="model",
            code="model_not_found",
        )

    @asynccontextmanager
    async def use(self, place: Place) -> AsyncIterator[EngineClient]:
        """The loaded engine, which stays loaded at least as long as the context lasts.

        Raises DoesNotFit when it cannot go into memory even alone, what loading raises, and
        ApiError 503 while the server stops.
        """
        place.users += 1
        try:
            yield await self._loaded(place)
        finally:
            place.users -= 1
            place.last_used = monotonic()
            async with self._room:
                self._room.notify_all()

    async def unload_idle(self) -> None:
        """Runs beside the server: unloads what nobody used for long enough."""
        if self._idle_unload_s is None:
            return
        while True:
            await asyncio.sleep(min(5.0, self._idle_unload_s / 4))
            for place in self.places:
                idle = monotonic() - place.last_used
                if place.engine and not place.users and idle >= self._idle_unload_s:
                    await self._unload(place)

    async def close(self) -> None:
        """Unload everything; nothing is loaded any more."""
        self._closed = True
        for place in self.places:
            if place.loading is not None:
                place.loading.cancel()
                with contextlib.suppress(asyncio.CancelledError, LocalspecError):
                    await place.loading
            await self._unload(place)

    async def _loaded(self, place: Place) -> EngineClient:
        if self._closed:
            raise ApiError(503, "the server is stopping", code="stopping")
        if place.engine is not None:
            return place.engine
        if place.loading is None:
            place.loading = asyncio.create_task(self._load(place))
        # A client that goes away does not stop the loading, which others may wait for.
        return await asyncio.shield(place.loading)

    async def _load(self, place: Place) -> EngineClient:
        try:
            async with self._load_turn:
                await self._make_room(place)
                _log.info("loading %s", place.model.id)
                engine = await self._start(place.model)
            place.engine = engine
            place.last_used = monotonic()
            place.loads += 1
            return engine
        finally:
            place.loading = None

    async def _make_room(self, place: Place) -> None:
        """Unload the least recently used until `place` fits; wait for those in use."""
        if self._budget is None:
            return
        need = place.model.required
        if need > self._budget:
            raise DoesNotFit(
                f"{place.model.id} needs {format_bytes(need)}, "
                f"{format_bytes(self._budget)} are there",
                hint="less context, a smaller KV type or a smaller file needs less",
                required=need,
                available=self._budget,
            )
        async with self._room:
            while True:
                loaded = [p for p in self.places if p.engine is not None]
                if sum(p.model.required for p in loaded) + need <= self._budget:
                    return
                idle = [p for p in loaded if not p.users]
                if idle:
                    await self._unload(min(idle, key=lambda p: p.last_used))
                else:
                    await self._room.wait()

    async def _unload(self, place: Place) -> None:
        engine, place.engine = place.engine, None
        if engine is not None:
            _log.info("unloading %s", place.model.id)
            await engine.close()
