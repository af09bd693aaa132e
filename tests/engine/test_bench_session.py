"""A whole benchmark on a real engine with tiny F32 models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.bench.contestants import Question
from localspec.bench.methods import choose_methods
from localspec.bench.prompt_text import PromptWriter
from localspec.bench.runner import Plan
from localspec.bench.session import BenchSession, Outcome, prompt_notices
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.decoding.sampling import GREEDY
from localspec.engine.client import EngineClient
from localspec.engine.settings import ChatMessage, EngineSettings, GenerateRequest, ModelSettings
from localspec.events import Answer

pytestmark = pytest.mark.engine

METHODS = ("ngram", "model", "auto", "ngram@2", "model@3")


def workload() -> Workload:
    prompts = (
        BenchPrompt("one", "w", ("the cat and the hat and the cat",)),
        BenchPrompt("two", "w", ("hello", "and again hello")),
    )
    return Workload("w", "w", 1, prompts)


async def measured(tiny: Callable[..., Path], names: tuple[str, ...], repeats: int) -> Outcome:
    settings = EngineSettings(
        ModelSettings(tiny("llama"), gpu_layers=0),
        draft=ModelSettings(tiny("llama", noise=0.05), gpu_layers=0),
        n_ctx=512,
        n_threads=1,
        p_min=0.0,
    )
    plan = Plan((workload(),), max_tokens=24, repeats=repeats)
    engine = await EngineClient.start(settings, lambda event: None)
    try:
        methods = choose_methods(names, has_draft=True)
        return await BenchSession(engine, settings, plan, methods).run()
    finally:
        await engine.close()


async def test_on_f32_every_method_gives_plain_decodings_answer(tiny: Callable[..., Path]) -> None:
    outcome = await measured(tiny, METHODS, repeats=2)
    assert outcome.finished
    assert prompt_notices(outcome.samples) == ()
    assert len(outcome.samples) == 2 * 2 * 6
    assert outcome.comparison.methods == ("plain", *METHODS)
    assert outcome.comparison.differences() == ()


async def test_counts_and_times_of_a_fixed_length_reach_the_comparison(
    tiny: Callable[..., Path],
) -> None:
    outcome = await measured(tiny, ("model@3",), repeats=1)
    model = outcome.comparison.of("model@3")
    assert model is not None
    assert len(model.drafted_per_position) == 3
    assert model.tokens_per_round is not None
    assert model.tokens_per_round > 1.0
    assert model.propose_share is not None
    assert model.verify_share is not None
    assert 0.0 < model.propose_share + model.verify_share <= 1.0
    assert model.prediction is not None


async def test_the_prompt_written_for_other_programs_is_the_engines_own(
    tiny: Callable[..., Path],
) -> None:
    path = tiny("llama")
    messages = (ChatMessage("system", "be brief"), ChatMessage("user", "the cat"))
    settings = EngineSettings(ModelSettings(path, gpu_layers=0), n_ctx=512, n_threads=1)
    text = PromptWriter.of_file(path).write(Question(messages, max_tokens=1)).text
    engine = await EngineClient.start(settings, lambda event: None)
    try:
        whole = GenerateRequest(messages=messages, sampling=GREEDY, max_tokens=8)
        written = GenerateRequest(prompt=text, sampling=GREEDY, max_tokens=8)
        answers = [await answer(engine, request) for request in (whole, written)]
    finally:
        await engine.close()
    assert answers[0].prompt_tokens == answers[1].prompt_tokens
    assert answers[0].tokens == answers[1].tokens


async def answer(engine: EngineClient, request: GenerateRequest) -> Answer:
    events = [event async for event in engine.generate(request)]
    assert isinstance(events[-1], Answer)
    return events[-1]
