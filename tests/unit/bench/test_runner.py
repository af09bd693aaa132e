"""The order of measuring: interleaved, with fresh caches, warm runs apart, stopped at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from localspec.bench.contestants import EngineContestant
from localspec.bench.methods import choose_methods, parse_method
from localspec.bench.runner import WARM_UP_TEXT, BenchRun, Measured, Plan, Progress, Running
from localspec.bench.samples import Sample
from localspec.bench.session import BenchSession
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.decoding.sampling import GREEDY
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.errors import EngineError, UsageError
from localspec.events import Notice
from tests.support.bench_fakes import FakeEngine

SPEEDS = {"none": 10.0, "ngram": 15.0, "auto": 20.0}


def workload(*turns: tuple[str, ...], name: str = "w") -> Workload:
    prompts = tuple(BenchPrompt(f"{name}{i}", name, turn) for i, turn in enumerate(turns))
    return Workload(name, name, 1, prompts)


def contestants(engine: FakeEngine, *names: str) -> list[EngineContestant]:
    return [EngineContestant(engine, parse_method(name)) for name in names]


async def measured(
    engine: FakeEngine, plan: Plan, *names: str
) -> tuple[list[Progress], tuple[Sample, ...]]:
    events: list[Progress] = []
    run = BenchRun(plan, contestants(engine, *names), events.append)
    return events, await run.run()


async def test_methods_take_turns_within_each_prompt_and_repeat() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("a",), ("b",)),), repeats=2)
    _, samples = await measured(engine, plan, "plain", "ngram", "auto")
    blocks = [samples[i : i + 3] for i in range(0, len(samples), 3)]
    assert len(blocks) == 4
    for block in blocks:
        assert {s.method for s in block} == {"plain", "ngram", "auto"}
        assert len({(s.prompt, s.repeat) for s in block}) == 1
    assert [(block[0].prompt, block[0].repeat) for block in blocks] == [
        ("w0", 0),
        ("w1", 0),
        ("w0", 1),
        ("w1", 1),
    ]
    assert [s.order for s in samples] == list(range(12))


async def test_who_begins_moves_on_so_that_nobody_always_comes_first() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("a",)),), repeats=3)
    _, samples = await measured(engine, plan, "plain", "ngram", "auto")
    assert [samples[i].method for i in (0, 3, 6)] == ["plain", "ngram", "auto"]


async def test_every_measured_answer_asks_for_fresh_caches() -> None:
    engine = FakeEngine(SPEEDS)
    await measured(engine, Plan((workload(("a",)),), repeats=2), "plain", "auto")
    assert engine.requests
    assert all(request.fresh_caches for request in engine.requests)


async def test_warm_runs_come_last_keep_caches_and_are_marked() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("a",), ("b",)),), repeats=1, warm=True)
    _, samples = await measured(engine, plan, "plain", "auto")
    assert [s.warm for s in samples] == [False] * 4 + [True] * 2
    assert [(s.method, s.prompt) for s in samples[4:]] == [("auto", "w0"), ("auto", "w1")]
    # Each warm answer was made twice: once to learn, once to be measured.
    kept = [request for request in engine.requests if not request.fresh_caches]
    assert [request.messages[0].content for request in kept] == ["a", "a", "b", "b"]


async def test_each_method_is_warmed_up_before_anything_counts() -> None:
    engine = FakeEngine(SPEEDS)
    events, _ = await measured(engine, Plan((workload(("a",)),), repeats=1), "plain", "auto")
    first = engine.requests[:2]
    assert [request.messages[0].content for request in first] == [WARM_UP_TEXT] * 2
    assert [request.method for request in first] == ["none", "auto"]
    assert [e.phase for e in events if isinstance(e, Running)][:2] == ["warm-up"] * 2


async def test_all_methods_continue_the_same_conversation() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("one", "two", "three")),), repeats=1)
    await measured(engine, plan, "plain", "auto")
    last = [r for r in engine.requests if r.messages[-1].content == "three"]
    assert [r.method for r in last] == ["none", "auto"]
    assert last[0].messages == last[1].messages
    assert [m.content for m in last[0].messages] == [
        "one",
        "answer to one",
        "two",
        "answer to two",
        "three",
    ]


async def test_progress_counts_to_the_total() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("a",), ("b", "c")),), repeats=2, warm=True)
    events, samples = await measured(engine, plan, "plain", "ngram")
    done = [e.done for e in events if isinstance(e, Measured)]
    assert done == list(range(1, len(samples) + 1))
    assert {e.total for e in events} == {len(samples)}


async def test_cancel_ends_the_running_answer_and_keeps_what_was_measured() -> None:
    engine = FakeEngine(SPEEDS)
    run = BenchRun(Plan((workload(("a",)),), repeats=5), contestants(engine, "plain", "auto"))

    def stop_in_the_sixth() -> None:
        if len(engine.requests) == 6:
            run.cancel()

    engine.on_event = stop_in_the_sixth
    samples = await run.run()
    # Two warm-ups and three finished answers; the sixth request was left in the middle.
    assert len(samples) == 3
    assert engine.closed_early == 1
    assert len(engine.requests) == 6
    assert run.cancelled


async def test_settings_reach_every_request() -> None:
    engine = FakeEngine(SPEEDS)
    plan = Plan((workload(("a",)),), repeats=1, max_tokens=9, raw=True)
    await measured(engine, plan, "plain", "ngram")
    assert all(r.max_tokens == 9 and r.sampling == GREEDY for r in engine.requests)
    assert all(r.prompt and not r.messages for r in engine.requests)


async def test_an_engine_that_says_nothing_is_an_error() -> None:
    class Silent(FakeEngine):
        async def generate(self, request):  # type: ignore[no-untyped-def]
            return
            yield

    with pytest.raises(EngineError, match="without an answer"):
        await measured(Silent(SPEEDS), Plan((workload(("a",)),)), "plain")


async def test_what_the_engine_warns_of_is_passed_on_once() -> None:
    class Warns(FakeEngine):
        async def generate(self, request: GenerateRequest) -> AsyncIterator[Any]:
            yield Notice("nothing was accepted", "try another draft")
            async for event in super().generate(request):
                yield event

    engine = Warns(SPEEDS)
    session = BenchSession(
        engine,
        EngineSettings(ModelSettings(Path("m.gguf"))),
        Plan((workload(("a",)),), repeats=2),
        choose_methods(["auto"], has_draft=False),
    )
    outcome = await session.run()
    assert outcome.notices == (Notice("nothing was accepted", "try another draft"),)
    assert len(outcome.samples) == 4


def test_a_plan_that_measures_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        Plan((workload(),))
    with pytest.raises(UsageError):
        Plan((workload(("a",)),), repeats=0)


def test_a_method_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        BenchRun(Plan((workload(("a",)),)), contestants(FakeEngine(SPEEDS), "auto", "auto"))
