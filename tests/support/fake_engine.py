"""An engine without models: it answers with scripted events, and notes what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from localspec.engine.settings import EngineSettings, GenerateRequest
from localspec.errors import LocalspecError
from localspec.events import (
    Answer,
    DrafterCounts,
    LoadProgress,
    Notice,
    PromptProgress,
    RoundDone,
    Speculation,
    TextDelta,
    TextSpan,
    Timings,
)

SPANS = (
    TextSpan("Let me see.", drafted=False, thinking=True),
    TextSpan("The sky ", drafted=False),
    TextSpan("is blue.", drafted=True),
)
TEXT = "The sky is blue."


class FakeEngine:
    """Stands in for EngineClient. Class attributes script it; `reset` makes it plain again."""

    fails_with: LocalspecError | None = None
    """Raised by the next answer instead of an end."""
    waits_for_cancel = False
    """The answer goes on until `cancel`."""
    notice: Notice | None = None
    started: list[FakeEngine]

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.requests: list[GenerateRequest] = []
        self.closed = False
        self.waiting = asyncio.Event()
        self._cancelled = asyncio.Event()

    @classmethod
    def reset(cls) -> None:
        cls.fails_with, cls.waits_for_cancel, cls.notice, cls.started = None, False, None, []

    @classmethod
    async def start(
        cls, settings: EngineSettings, on_event: Callable[[LoadProgress | Notice], None]
    ) -> FakeEngine:
        on_event(LoadProgress("target", 0.5))
        on_event(LoadProgress("target", 1.0))
        if cls.notice is not None:
            on_event(cls.notice)
        engine = cls(settings)
        cls.started.append(engine)
        return engine

    async def generate(
        self, request: GenerateRequest
    ) -> AsyncIterator[TextDelta | PromptProgress | RoundDone | Notice | Answer]:
        self.requests.append(request)
        self._cancelled.clear()
        yield PromptProgress(5, 5, 2)
        yield TextDelta(SPANS[:2])
        if self.fails_with is not None:
            error, type(self).fails_with = self.fails_with, None
            raise error
        if self.waits_for_cancel:
            self.waiting.set()
            await self._cancelled.wait()
            yield self._answer(request, "The sky ", "cancelled")
            return
        yield RoundDone(4, 2, 2, 2, 0.1, 9)
        yield TextDelta(SPANS[2:])
        yield self._answer(request, TEXT, "stop")

    async def cancel(self) -> None:
        self._cancelled.set()

    async def explain(self) -> dict[str, Any]:
        ngram = {"rounds": 12, "expected_tokens_per_round": 3.5, "tokens_per_round": 3.25}
        plain = {"rounds": 4, "expected_tokens_per_round": 1.0, "tokens_per_round": 1.0}
        return {
            "choices": {
                "none": {**plain, "expected_gain": 1.0, "gain": 1.0},
                "ngram": {**ngram, "expected_gain": 2.0, "gain": 1.75},
            },
            "rate": 35.0,
            "plain_rate": 20.0,
            "cost_ms": [50.0, 55.0, 60.0, 65.0, 70.0],
        }

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def close(self) -> None:
        self.closed = True

    def _answer(self, request: GenerateRequest, text: str, reason: str) -> Answer:
        return Answer(
            model=self.settings.model_id,
            text=text,
            thinking="Let me see.",
            tokens=(7, 8, 9, 2),
            finish_reason=reason,
            prompt_tokens=5,
            cached_tokens=2,
            timings=Timings(1.5, 0.25, 0.5, 3, 3),
            speculation=Speculation(
                method=request.method or self.settings.method,
                rounds=2,
                drafted=4,
                accepted=2,
                accepted_per_position=(1, 1),
                drafted_per_position=(2, 2),
                propose_s=0.001,
                verify_s=0.4,
                by_drafter={
                    "ngram": DrafterCounts(1, 3, 1),
                    "model": DrafterCounts(1, 1, 1),
                },
            ),
        )
