"""Who is answered next: a bounded queue that takes turns among clients."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from localspec.server.failures import ApiError

_FIRST_GUESS_S = 5.0
"""How long an answer takes, before the first has been measured."""


class FairQueue:
    """Slots of one model, and who waits for them.

    Clients take turns: one that sends a hundred requests does not keep another's single one
    waiting for them all. Requests of one client keep their order.
    """

    def __init__(self, slots: int, most_waiting: int) -> None:
        self._free = slots
        self._slots = slots
        self._most_waiting = most_waiting
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._usual_s = _FIRST_GUESS_S

    @property
    def n_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def n_running(self) -> int:
        return self._slots - self._free

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """A slot for as long as the context lasts. Raises ApiError 429 when the queue is full."""
        await self._enter(client)
        begun = monotonic()
        try:
            yield
        finally:
            self._usual_s += 0.1 * (monotonic() - begun - self._usual_s)
            self._leave()

    async def _enter(self, client: str) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        waiting = self.n_waiting
        if waiting >= self._most_waiting:
            raise ApiError(
                429,
                f"{waiting} requests are waiting already",
                code="queue_full",
                retry_after_s=max(1, math.ceil(self._usual_s * waiting / self._slots)),
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The slot came in the same moment in which the client went: it is the next one's.
                self._leave()
            else:
                self._forget(client, turn)
            raise

    def _leave(self) -> None:
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            del self._waiting[client]
            if turns:
                # Its next request stands behind everybody else's.
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns is None:
            return
        if turn in turns:
            turns.remove(turn)
        if not turns:
            del self._waiting[client]
