"""A benchmark that ends early: what was measured by then is compared and reported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localspec.bench.methods import choose_methods
from localspec.bench.runner import Plan
from localspec.bench.session import BenchSession
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.errors import EngineError
from localspec.events import Answer, RoundDone
from tests.support.bench_fakes import FakeEngine

WORKLOAD = Workload("w", "w", 1, tuple(BenchPrompt(f"p{n}", "w", (f"say {n}",)) for n in range(4)))
WARM_UP = 2


class Fragile(FakeEngine):
    """Fails at an answer."""

    fails_at: int = 0

    async def generate(self, request: GenerateRequest) -> AsyncIterator[RoundDone | Answer]:
        if len(self.requests) + 1 == self.fails_at:
            raise EngineError("the engine is gone")
        async for event in super().generate(request):
            yield event


def session(fails_at: int) -> BenchSession:
    engine = Fragile(speeds={"none": 50.0, "auto": 100.0})
    engine.fails_at = fails_at
    settings = EngineSettings(ModelSettings(Path("m.gguf")))
    plan = Plan((WORKLOAD,), repeats=1)
    return BenchSession(engine, settings, plan, choose_methods(["auto"], has_draft=False))


async def test_what_was_measured_before_a_failure_is_compared() -> None:
    outcome = await session(fails_at=WARM_UP + 2 * 3 + 1).run()
    assert isinstance(outcome.error, EngineError)
    assert not outcome.finished
    assert len(outcome.samples) == 6
    auto = outcome.comparison.of("auto")
    assert auto is not None
    assert auto.speedup == pytest.approx(2.0)


async def test_a_failure_before_anything_was_measured_is_raised() -> None:
    with pytest.raises(EngineError, match="gone"):
        await session(fails_at=1).run()


async def test_without_a_failure_there_is_no_error() -> None:
    outcome = await session(fails_at=0).run()
    assert outcome.error is None
    assert outcome.finished
