"""Stand-ins for what a benchmark measures: engines of known speed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from localspec.bench.samples import Reply, Sample
from localspec.engine.settings import GenerateRequest
from localspec.events import Answer, RoundDone, Speculation, Timings


@dataclass
class FakeEngine:
    """Answers with given speeds and remembers what it was asked."""

    speeds: Mapping[str, float]
    """Tokens per second by method."""
    tokens: int = 33
    """Tokens of every answer."""
    drift: Callable[[int], float] = lambda call: 1.0
    """What the speed of the n-th call is multiplied by."""
    says: Callable[[GenerateRequest], tuple[int, ...]] | None = None
    """Tokens of an answer; None counts upwards."""
    on_event: Callable[[], None] = lambda: None
    """Called when half of an answer has been sent."""
    requests: list[GenerateRequest] = field(default_factory=list)
    closed_early: int = 0
    """Answers that were left before their end."""

    async def generate(self, request: GenerateRequest) -> AsyncIterator[RoundDone | Answer]:
        self.requests.append(request)
        tokens = tuple(range(self.tokens)) if self.says is None else self.says(request)
        speed = self.speeds[request.method or "auto"] * self.drift(len(self.requests))
        done = False
        try:
            self.on_event()
            yield RoundDone(len(tokens) // 2, 1, 0, 0, 0.0, 0)
            done = True
            yield self._answer(request, tokens, speed)
        finally:
            self.closed_early += not done

    def _answer(self, request: GenerateRequest, tokens: tuple[int, ...], speed: float) -> Answer:
        decoded = len(tokens) - 1
        plain = request.method == "none"
        speculation = Speculation(
            request.method or "auto",
            rounds=decoded if plain else decoded // 2,
            drafted=0 if plain else decoded,
            accepted=0 if plain else decoded // 2,
            accepted_per_position=() if plain else (decoded // 2, 0),
            drafted_per_position=() if plain else (decoded // 2, decoded // 2),
            propose_s=0.0 if plain else 0.1 * decoded / speed,
            verify_s=0.8 * decoded / speed,
        )
        return Answer(
            model="fake",
            text=f"answer to {request.messages[-1].content if request.messages else ''}",
            thinking="",
            tokens=tokens,
            finish_reason="length",
            prompt_tokens=5,
            cached_tokens=0,
            timings=Timings(decode_s=decoded / speed, decode_tokens=decoded),
            speculation=speculation,
        )


class FakeEngineWithLogits(FakeEngine):
    """Also tells logits: token id over ten."""

    async def next_logits(
        self, request: GenerateRequest, continuation: tuple[int, ...], candidates: tuple[int, ...]
    ) -> tuple[float, ...]:
        return tuple(token / 10 for token in candidates)


def sample(
    method: str,
    prompt: str = "p1",
    rate: float = 10.0,
    *,
    workload: str = "w",
    repeat: int = 0,
    tokens: tuple[int, ...] = tuple(range(41)),
    warm: bool = False,
    speculation: Speculation | None = None,
    finish_reason: str = "length",
) -> Sample:
    """One measured answer of `rate` tokens per second."""
    decoded = len(tokens) - 1
    return Sample(
        method,
        workload,
        prompt,
        repeat,
        0,
        warm,
        Reply(
            text="",
            tokens=tokens,
            prompt_tokens=3,
            decode_tokens=decoded,
            decode_s=decoded / rate,
            finish_reason=finish_reason,
            drafted=speculation.drafted if speculation else 0,
            accepted=speculation.accepted if speculation else 0,
            speculation=speculation,
        ),
    )
