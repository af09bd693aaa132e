"""Answers as tasks of their own: a client that is slow or gone never holds a slot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from localspec.engine.client import GenerationEvent
from localspec.engine.settings import GenerateRequest
from localspec.errors import EngineError, LocalspecError
from localspec.events import Answer, RoundDone
from localspec.server.failures import ApiError, as_api_error
from localspec.server.metrics import Metrics
from localspec.server.models import Models, Place

_log = logging.getLogger("localspec.server")

Told = tuple[int, GenerationEvent]
"""An event and the number of the answer it belongs to."""


class Running:
    """The answers to one request: queued, loaded and generated in the background.

    Their events wait here for the client. What waits is at most the answers' text, so a slow reader
    costs little memory and no slot.
    """

    def __init__(
        self,
        models: Models,
        place: Place,
        requests: Sequence[GenerateRequest],
        client: str,
        metrics: Metrics,
        prompt_param: str = "messages",
    ) -> None:
        """prompt_param: what the request calls its prompt, for errors about it."""
        self._events: asyncio.Queue[Told | ApiError] = asyncio.Queue()
        self._metrics = metrics
        self._prompt_param = prompt_param
        self._left = len(requests)
        self._tasks = [
            asyncio.create_task(self._run(models, place, request, client, index))
            for index, request in enumerate(requests)
        ]

    async def events(self) -> AsyncIterator[Told]:
        """Everything that is generated, until the last of the answers has ended.

        Raises ApiError when one of them fails.
        """
        while self._left:
            event = await self._events.get()
            if isinstance(event, ApiError):
                raise event
            if isinstance(event[1], Answer):
                self._left -= 1
            yield event

    def has_more(self) -> bool:
        """Whether events wait already: what they say can be told together."""
        return not self._events.empty()

    def stop(self) -> None:
        """Give the slots back now; may be called at any time."""
        for task in self._tasks:
            task.cancel()

    async def _run(
        self, models: Models, place: Place, request: GenerateRequest, client: str, index: int
    ) -> None:
        outcome = "cancelled"
        try:
            async with (
                place.queue.slot(client),
                models.use(place) as engine,
                aclosing(engine.generate(request)) as events,
            ):
                async for event in events:
                    if isinstance(event, RoundDone):
                        continue  # nobody is told of these, and every event costs a turn
                    if isinstance(event, Answer):
                        outcome = event.finish_reason
                        self._metrics.answered(place.model.id, event)
                        _log_answer(event)
                    self._events.put_nowait((index, event))
        except ApiError as error:
            outcome = str(error.status)
            self._events.put_nowait(error)
        except LocalspecError as error:
            failure = as_api_error(error, self._prompt_param)
            outcome = str(failure.status)
            if isinstance(error, EngineError):
                _log.error("%s: %s", place.model.id, error.message)
            self._events.put_nowait(failure)
        except Exception:  # noqa: BLE001 - without an end the client would wait for ever
            _log.exception("an answer of %s failed", place.model.id)
            outcome = "500"
            self._events.put_nowait(ApiError(500, "the server failed", code="internal"))
        finally:
            self._metrics.ended(place.model.id, outcome)


def _log_answer(answer: Answer) -> None:
    """One line without a word of what was said."""
    timings = answer.timings
    _log.info(
        "%s answered: %d tokens, %.1f/s; prompt %d, %d of it kept; %d of %d drafted kept; %s",
        answer.model,
        answer.completion_tokens,
        timings.decode_tokens_per_second,
        answer.prompt_tokens,
        answer.cached_tokens,
        answer.speculation.accepted,
        answer.speculation.drafted,
        answer.finish_reason,
    )
