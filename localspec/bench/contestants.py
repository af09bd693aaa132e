"""Who answers the prompts: our engine with one method, behind the same face as other programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from localspec.bench.methods import Method
from localspec.bench.samples import Reply
from localspec.decoding.sampling import GREEDY, SamplingSettings
from localspec.engine.settings import ChatMessage, GenerateRequest
from localspec.errors import EngineError, Interrupted
from localspec.events import Answer, Notice


class Engine(Protocol):
    """As much of the engine's client as measuring needs."""

    def generate(self, request: GenerateRequest) -> AsyncIterator[Any]:
        """Events while it works, an Answer at the end. Closing the iterator early cancels."""
        ...


@runtime_checkable
class LogitSource(Protocol):
    """An engine that can say how near two tokens were."""

    async def next_logits(
        self, request: GenerateRequest, continuation: tuple[int, ...], candidates: tuple[int, ...]
    ) -> tuple[float, ...]:
        """The target's logits of `candidates` after the prompt of `request` and `continuation`,
        evaluated as plain decoding does, one token at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt as it is put to every contestant."""

    messages: tuple[ChatMessage, ...]
    """The whole conversation, the user's turn last."""
    max_tokens: int
    sampling: SamplingSettings = GREEDY
    raw: bool = False
    """Whether the last message is the prompt itself, without a chat template."""

    def request(self, *, fresh_caches: bool) -> GenerateRequest:
        if self.raw:
            return GenerateRequest(
                prompt=self.messages[-1].content,
                sampling=self.sampling,
                max_tokens=self.max_tokens,
                fresh_caches=fresh_caches,
            )
        return GenerateRequest(
            messages=self.messages,
            sampling=self.sampling,
            max_tokens=self.max_tokens,
            fresh_caches=fresh_caches,
        )


class Contestant(Protocol):
    """Anything that answers questions and can be timed."""

    @property
    def name(self) -> str: ...

    @property
    def has_warm_runs(self) -> bool:
        """Whether it keeps caches from one answer to the next that a warm run could show."""
        ...

    async def answer(
        self, question: Question, *, fresh_caches: bool, stopped: Callable[[], bool]
    ) -> Reply:
        """The whole answer. Raises Interrupted when `stopped()` becomes true meanwhile."""
        ...


@dataclass(frozen=True, slots=True)
class EngineContestant:
    """Our engine with one method; all of them share one engine with the same models loaded."""

    engine: Engine
    method: Method
    on_notice: Callable[[Notice], None] = lambda notice: None
    """Gets what the engine warns of while it answers."""

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def has_warm_runs(self) -> bool:
        return self.method.method in ("ngram", "auto")

    async def answer(
        self, question: Question, *, fresh_caches: bool, stopped: Callable[[], bool]
    ) -> Reply:
        request = self.method.apply(question.request(fresh_caches=fresh_caches))
        answer: Answer | None = None
        stream = self.engine.generate(request)
        async with aclosing(stream) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Answer):
                    answer = event
                    continue
                if isinstance(event, Notice):
                    self.on_notice(event)
                if stopped():
                    raise Interrupted("stopped while an answer was measured")
        if answer is None:
            raise EngineError("the engine ended without an answer", method=self.name)
        if answer.finish_reason == "cancelled":
            raise Interrupted("stopped while an answer was measured")
        return reply_of(answer)


def reply_of(answer: Answer) -> Reply:
    """The figures of an engine's answer that measuring keeps."""
    return Reply(
        text=answer.text,
        tokens=answer.tokens,
        prompt_tokens=answer.prompt_tokens,
        decode_tokens=answer.timings.decode_tokens,
        decode_s=answer.timings.decode_s,
        finish_reason=answer.finish_reason,
        drafted=answer.speculation.drafted,
        accepted=answer.speculation.accepted,
        speculation=answer.speculation,
    )
