"""llama-server as a rival: the same files and prompts, fresh caches, and no process left behind."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.bench.contestants import Question
from localspec.bench.llama_server import read_options, server_arguments
from localspec.bench.methods import choose_methods
from localspec.bench.prompt_text import PromptWriter
from localspec.bench.runner import Plan
from localspec.bench.samples import Reply
from localspec.bench.server_contestants import (
    ServerContestant,
    ServerSetup,
    completion_request,
    reply_of_completion,
)
from localspec.bench.server_methods import (
    BEST,
    SERVER_METHODS,
    SERVER_PLAIN,
    ServerMethod,
    ServerOptions,
    usable_methods,
)
from localspec.bench.session import Against, BenchSession, prompt_notices
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.chat_template import CHATML, ChatTemplate
from localspec.engine.settings import ChatMessage, EngineSettings, ModelSettings
from localspec.errors import EngineCrashed, EngineError, Interrupted, UsageError
from tests.support import llama_server_stub
from tests.support.bench_fakes import FakeEngine, sample
from tests.support.tiny_gguf import write_tiny

OPTIONS = ServerOptions.parse(llama_server_stub.HELP)
QUESTION = Question((ChatMessage("user", "hi"),), max_tokens=21)

needs_scripts = pytest.mark.skipif(sys.platform == "win32", reason="the stub is a script")


class Stub:
    """The stub's path and what its processes noted."""

    def __init__(self, folder: Path) -> None:
        self.binary = folder / "llama-server"
        self.log = folder / "stub.log"
        script = f'#!/bin/sh\nexec "{sys.executable}" "{llama_server_stub.__file__}" "$@"\n'
        self.binary.write_text(script)
        self.binary.chmod(0o755)

    def notes(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def starts(self) -> list[list[str]]:
        return [note["arguments"] for note in self.notes() if "arguments" in note]

    def completions(self) -> list[dict[str, Any]]:
        return [note["body"] for note in self.notes() if note.get("path") == "/completion"]

    def running(self) -> list[int]:
        """Processes that were started and have not ended."""
        return [note["pid"] for note in self.notes() if "arguments" in note and alive(note["pid"])]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    made = Stub(tmp_path)
    monkeypatch.setenv("LLAMA_STUB_LOG", str(made.log))
    yield made
    assert made.running() == []


def setup(stub: Stub, *, keep: bool = True, model: str = "m.gguf") -> ServerSetup:
    return ServerSetup(
        binary=stub.binary,
        options=OPTIONS,
        settings=settings(model),
        n_ctx=2048,
        n_threads=2,
        writer=PromptWriter(ChatTemplate(CHATML)),
        keep=keep,
    )


def settings(model: str = "m.gguf", *, draft: str | None = "d.gguf") -> EngineSettings:
    return EngineSettings(
        ModelSettings(Path(model)), draft=ModelSettings(Path(draft)) if draft else None
    )


async def ask(contestant: ServerContestant, stopped: Callable[[], bool] = lambda: False) -> Reply:
    return await contestant.answer(QUESTION, fresh_caches=True, stopped=stopped)


def method(type: str) -> ServerMethod:
    return next(m for m in SERVER_METHODS if m.type == type)


def test_the_help_text_tells_options_and_kinds_of_speculation() -> None:
    assert {"-c", "--ctx-size", "--offline", "-md", "--model-draft"} <= OPTIONS.names
    assert OPTIONS.types == {"none", "draft-simple", "ngram-simple", "ngram-mod", "ngram-cache"}
    assert not {"--draft", "--draft-max", "--spec-ngram-size-n"} & OPTIONS.names


def test_only_what_the_build_and_the_pair_allow_is_measured() -> None:
    with_draft = [m.name for m in usable_methods(OPTIONS, has_draft=True)]
    assert with_draft == [
        "server:plain",
        "server:ngram-simple",
        "server:ngram-mod",
        "server:ngram-cache",
        "server:draft-simple",
        "server:draft-simple-p0.6",
    ]
    without = usable_methods(OPTIONS, has_draft=False)
    assert not any(m.needs_draft for m in without)
    assert usable_methods(ServerOptions(frozenset(), frozenset()), has_draft=True) == (
        SERVER_PLAIN,
    )


def test_arguments_name_the_same_files_and_leave_out_what_the_build_lacks() -> None:
    arguments = server_arguments(
        settings(), method("draft-simple"), OPTIONS, n_ctx=2048, n_threads=3
    )
    assert arguments == [
        "--model",
        "m.gguf",
        "--ctx-size",
        "2048",
        "--threads",
        "3",
        "--flash-attn",
        "auto",
        "--offline",
        "--spec-type",
        "draft-simple",
        "--spec-draft-model",
        "d.gguf",
    ]
    plain = server_arguments(settings(), SERVER_PLAIN, OPTIONS, n_ctx=2048, n_threads=3)
    assert "--spec-type" not in plain
    with pytest.raises(UsageError, match="needs a draft"):
        server_arguments(
            settings(draft=None), method("draft-simple"), OPTIONS, n_ctx=1, n_threads=1
        )


def test_a_completion_asks_for_the_same_sampling_and_no_reused_prompt() -> None:
    sampling = SamplingSettings(temp=0.5, top_k=7, seed=3)
    question = Question((ChatMessage("user", "hi"),), max_tokens=21, sampling=sampling)
    body = completion_request(question, [4, 5])
    assert body["prompt"] == [4, 5]
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.5, 7, 3)
    assert body["n_predict"] == 21
    assert body["cache_prompt"] is False


def test_the_first_token_is_not_counted_as_decoded() -> None:
    answer = {"tokens": [1, 2, 3], "timings": {"predicted_n": 3, "predicted_ms": 500.0}}
    reply = reply_of_completion(answer)
    assert reply.decode_tokens == 2
    assert reply.rate == pytest.approx(4.0)
    with pytest.raises(EngineError, match="no timings"):
        reply_of_completion({"content": "x"})


@needs_scripts
def test_the_options_are_read_from_the_binary(stub: Stub) -> None:
    assert read_options(stub.binary) == OPTIONS


@pytest.mark.parametrize("path", ["/nonexistent/llama-server", sys.executable])
def test_other_programs_are_refused(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(Path(path))
    assert "--against" in caught.value.hint


@needs_scripts
async def test_a_server_that_learns_nothing_stays_up_between_answers(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub), SERVER_PLAIN)
    replies = [await ask(contestant), await ask(contestant)]
    assert len(stub.starts()) == 1
    contestant.close()
    contestant.close()
    assert [reply.decode_tokens for reply in replies] == [20, 20]
    assert (replies[0].drafted, replies[0].accepted) == (8, 6)
    assert replies[0].rate == pytest.approx(10.0)
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    # ChatML without BOS: the tokenizer is asked to add one, and does.
    assert stub.completions()[-1]["prompt"] == [1, *map(ord, text)]


@needs_scripts
async def test_a_server_that_learns_is_started_anew_for_every_answer(stub: Stub) -> None:
    learning = ServerMethod("server:x", "ngram-simple", keeps_state=True)
    contestant = ServerContestant(setup(stub), learning)
    await ask(contestant)
    assert stub.running() == []
    await ask(contestant)
    assert len(stub.starts()) == 2


@needs_scripts
async def test_where_memory_is_short_there_is_one_server_at_a_time(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub, keep=False), SERVER_PLAIN)
    await ask(contestant)
    assert stub.running() == []


@needs_scripts
async def test_a_server_that_dies_is_told_with_its_last_words(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub, model="dies.gguf"), SERVER_PLAIN)
    with pytest.raises(EngineCrashed, match=r"exit status 3: GGML_ASSERT\(stub\) failed"):
        await ask(contestant)


@needs_scripts
async def test_a_server_that_cannot_load_is_told_at_once(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub, model="broken.gguf"), SERVER_PLAIN)
    with pytest.raises(EngineCrashed, match="cannot load the model"):
        await ask(contestant)


@needs_scripts
async def test_stopping_ends_a_server_in_the_middle_of_an_answer(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub, model="hangs.gguf"), SERVER_PLAIN)
    with pytest.raises(Interrupted):
        await ask(contestant, stopped=lambda: bool(stub.completions()))


@needs_scripts
async def test_a_refusal_is_told_in_the_servers_words(stub: Stub) -> None:
    contestant = ServerContestant(setup(stub), SERVER_PLAIN)
    server = await contestant._started(lambda: False)
    with pytest.raises(EngineError, match="empty prompt"):
        await server.post("/completion", {"prompt": []}, lambda: False)
    contestant.close()


@needs_scripts
async def test_a_session_puts_servers_into_the_same_table(stub: Stub, tmp_path: Path) -> None:
    session = BenchSession(
        FakeEngine({"none": 8.0, "auto": 20.0}, tokens=21),
        # What the engine made of `auto`; the server makes up its own mind.
        replace(
            settings(str(write_tiny(tmp_path / "tiny.gguf", "llama"))), flash_attn="off", draft=None
        ),
        Plan((Workload("w", "w", 1, (BenchPrompt("p", "w", ("hi",)),)),), max_tokens=21, repeats=1),
        choose_methods(["auto"], has_draft=False),
        against=Against(stub.binary, 64, 1, keep=True, flash_attn="auto"),
    )
    outcome = await session.run()
    assert outcome.finished
    assert outcome.comparison.methods == (
        "plain",
        "auto",
        "server:plain",
        "server:ngram-simple",
        "server:ngram-mod",
        "server:ngram-cache",
        BEST,
    )
    for arguments in stub.starts():
        assert arguments[arguments.index("--flash-attn") + 1] == "auto"
    best = outcome.comparison.of(BEST)
    assert best is not None
    # The stub decodes 10 tokens a second.
    assert best.speedup == pytest.approx(10.0 / 8.0)
    assert best.identical == 1
    first = outcome.versus[0]
    assert (first.method, first.rival) == ("auto", BEST)
    assert first.geomean == pytest.approx(2.0)
    # The engine's stand-in counts other prompt tokens than the stub: that is told.
    assert "reads prompt p as" in outcome.notices[0].message


async def test_a_session_stopped_before_its_first_answer_has_an_empty_outcome() -> None:
    prompts = (BenchPrompt("p", "w", ("hi",)),)
    session = BenchSession(
        FakeEngine({"none": 8.0}),
        settings(),
        Plan((Workload("w", "w", 1, prompts),)),
        choose_methods([], has_draft=False),
    )
    session.cancel()
    outcome = await session.run()
    assert not outcome.finished
    assert (outcome.samples, outcome.comparison.prompts, outcome.warm) == ((), (), None)


def test_the_best_server_setting_is_a_method_of_its_own() -> None:
    assert BEST not in [m.name for m in SERVER_METHODS]
    assert all(m.name.startswith("server:") for m in SERVER_METHODS)


def test_other_prompt_tokens_than_plains_are_warned_about() -> None:
    from dataclasses import replace

    own, other = sample("plain"), sample("server:plain")
    assert prompt_notices([own, other]) == ()
    longer = replace(other, reply=replace(other.reply, prompt_tokens=4))
    (notice,) = prompt_notices([own, longer])
    assert "4 tokens, plain as 3" in notice.message
