"""`localspec run`: what it asks of the engine, and what it shows of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.engine.settings import ChatMessage
from localspec.errors import EngineCrashed
from localspec.events import DownloadProgress, Notice
from localspec.hub.pull import PulledFile, PullPlan
from tests.cli.conftest import Program
from tests.support.fake_engine import TEXT, FakeEngine

Fake = type[FakeEngine]


def test_the_answer_is_on_stdout_and_nothing_else(
    program: Program, fake_engine: Fake, tiny: Path
) -> None:
    done = program("run", tiny, "Why", "is the sky blue?")
    assert (done.code, done.out) == (0, TEXT + "\n")
    (engine,) = fake_engine.started
    assert engine.requests[0].messages == (ChatMessage("user", "Why is the sky blue?"),)
    assert engine.closed


def test_piped_text_is_the_prompt_or_follows_it(
    program: Program, fake_engine: Fake, tiny: Path
) -> None:
    program("run", tiny, stdin="What is this?\n")
    program("run", tiny, "Explain:", stdin="def f(): pass\n")
    asked = [engine.requests[0].messages[-1].content for engine in fake_engine.started]
    assert asked == ["What is this?\n", "Explain:\n\ndef f(): pass\n"]


def test_options_reach_the_engine(program: Program, fake_engine: Fake, tiny: Path) -> None:
    options = [
        "--draft",
        "ngram",
        "--draft-max",
        "9",
        "--draft-min",
        "2",
        "--p-min",
        "0.5",
        "--ctx",
        "4k",
        "--kv-type",
        "q8_0",
        "--gpu-layers",
        "7",
        "--threads",
        "3",
        "--batch",
        "64",
        "--ubatch",
        "32",
        "--flash-attn",
        "on",
        "--context-shift",
        "--temp",
        "0.5",
        "--top-k",
        "9",
        "--top-p",
        "0.8",
        "--min-p",
        "0.1",
        "--repeat-penalty",
        "1.1",
        "--seed",
        "42",
        "--sampler",
        "dry-multiplier=0.8",
        "--max-tokens",
        "77",
        "--lookup-dynamic",
        "off",
    ]
    done = program(
        "run", tiny, "hi", *options, "--system", "Be brief.", "--stop", "END", "--stop", r"\n\n"
    )
    assert done.code == 0
    (engine,) = fake_engine.started
    settings, request = engine.settings, engine.requests[0]
    assert settings.target.path == tiny
    assert (settings.target.gpu_layers, settings.target.kv_type) == (7, "q8_0")
    assert (settings.method, settings.draft_max, settings.draft_min) == ("ngram", 9, 2)
    assert (settings.p_min, settings.n_ctx, settings.n_threads) == (0.5, 4096, 3)
    assert (settings.n_batch, settings.n_ubatch, settings.flash_attn) == (64, 32, "on")
    assert settings.context_shift
    assert (settings.lookup_dynamic, settings.lookup_folder) == (None, None)
    sampling = request.sampling
    assert (sampling.temp, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 9, 0.8, 0.1)
    assert (sampling.repeat_penalty, sampling.seed) == (1.1, 42)
    assert sampling.dry_multiplier == 0.8
    assert (request.max_tokens, request.stop) == (77, ("END", "\n\n"))
    assert request.messages[0] == ChatMessage("system", "Be brief.")


def test_raw_sends_the_prompt_as_it_stands(program: Program, fake_engine: Fake, tiny: Path) -> None:
    program("run", tiny, "Once upon", "--raw")
    request = fake_engine.started[0].requests[0]
    assert (request.prompt, request.messages) == ("Once upon", ())


def test_a_draft_model_by_path(
    program: Program, fake_engine: Fake, tiny: Path, tmp_path: Path
) -> None:
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(tiny.read_bytes())
    program("run", tiny, "hi", "--draft", draft, "--draft-kv-type", "q8_0")
    settings = fake_engine.started[0].settings
    assert settings.method == "model"
    assert settings.draft is not None
    assert (settings.draft.path, settings.draft.kv_type) == (draft, "q8_0")


def test_json_is_the_contract(program: Program, fake_engine: Fake, tiny: Path) -> None:
    done = program("run", tiny, "hi", "--draft", "ngram", "--json")
    assert json.loads(done.out) == {
        "model": str(tiny),
        "text": TEXT,
        "thinking": "Let me see.",
        "tokens": [7, 8, 9, 2],
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 5, "completion_tokens": 4, "cached_tokens": 2},
        "timings": {
            "load_ms": 1500.0,
            "prompt_ms": 250.0,
            "decode_ms": 500.0,
            "prompt_tokens_per_second": 12.0,
            "decode_tokens_per_second": 6.0,
        },
        "speculation": {
            "method": "ngram",
            "rounds": 2,
            "drafted": 4,
            "accepted": 2,
            "acceptance_rate": 0.5,
            "tokens_per_round": 2.0,
            "accepted_per_position": [1, 1],
            "propose_ms": 1.0,
            "verify_ms": 400.0,
            "by_drafter": {
                "ngram": {"rounds": 1, "drafted": 3, "accepted": 1},
                "model": {"rounds": 1, "drafted": 1, "accepted": 1},
            },
        },
    }


def test_stats_are_one_line_on_stderr(program: Program, fake_engine: Fake, tiny: Path) -> None:
    done = program("run", tiny, "hi", "--stats")
    assert done.out == TEXT + "\n"
    assert done.err_lines == [
        "4 tokens, 6.0 tok/s · 2.00 tokens per round · 2 of 4 draft tokens accepted (50%): "
        "ngram 1/3, model 1/1 · prompt 5 tokens (2 reused), 0.2 s · loaded in 1.5 s"
    ]
    assert program("run", tiny, "hi", "--no-stats").err == ""


def test_draft_tokens_are_coloured_on_request(
    program: Program, fake_engine: Fake, tiny: Path
) -> None:
    done = program("run", tiny, "hi", "--color-drafts", "--color")
    assert done.out == "The sky \x1b[32mis blue.\x1b[0m\n"
    assert program("run", tiny, "hi", "--color-drafts").out == TEXT + "\n"


def test_a_crash_of_the_engine_is_one_error(
    program: Program, fake_engine: Fake, tiny: Path
) -> None:
    fake_engine.fails_with = EngineCrashed("the engine ended with SIGKILL", hint="less --ctx")
    done = program("run", tiny, "hi")
    assert done.code == 1
    assert done.out == "The sky \n"
    assert done.err_lines == ["error: the engine ended with SIGKILL", "hint: less --ctx"]
    assert fake_engine.started[0].closed


def test_notices_of_the_engine_are_warnings(
    program: Program, fake_engine: Fake, tiny: Path
) -> None:
    fake_engine.notice = Notice("no chat template", hint="use --raw")
    done = program("run", tiny, "hi")
    assert done.err_lines == ["warning: no chat template", "hint: use --raw"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draft", "modle"], "--draft 'modle' is neither a method nor a model"),
        (["--ctx", "lots"], "--ctx 'lots' is not a number of tokens"),
        (["--gpu-layers", "most"], "--gpu-layers 'most' is not a number of layers"),
        (["--temp", "-1"], "--temp -1.0 is out of range"),
        (["--top-p", "1.5"], "--top-p 1.5 is out of range"),
        (["--sampler", "dry=1"], "--sampler 'dry=1' is not known"),
        (["--sampler", "mirostat=x"], "--sampler 'mirostat=x': 'x' is not a whole number"),
        (["--sampler", "dry-multiplier"], "--sampler 'dry-multiplier' has no value"),
        (
            ["--sampler", "dry-multiplier=nan"],
            "--sampler 'dry-multiplier=nan': 'nan' is not a number",
        ),
        (["--stop", ""], "--stop '' is empty"),
        (["--max-tokens", "-3"], "--max-tokens -3 is negative"),
        (["--kv-type", "foo"], "--kv-type 'foo' is not a type of KV cache"),
        (["--kv-type", "q8_0", "--flash-attn", "off"], "--kv-type q8_0 needs flash attention"),
        (["--cpu-moe", "--n-cpu-moe", "2"], "--cpu-moe and --n-cpu-moe exclude each other"),
        (["--tensor-split", "1,x"], "--tensor-split '1,x' is not a list of numbers"),
        (["--draft-max", "0"], "--draft-max 0 is out of range"),
        (["--threads", "-1"], "--threads -1 is out of range"),
        (["--grammar", "nowhere.gbnf"], "--grammar nowhere.gbnf: No such file or directory"),
        (["--lookup-static", "nowhere.bin"], "--lookup-static nowhere.bin: no such file"),
        (["--max-tokens", "some"], "--max-tokens some: it must be a valid integer"),
    ],
)
def test_wrong_options_are_told_before_anything_loads(
    arguments: list[str], message: str, program: Program, fake_engine: Fake, tiny: Path
) -> None:
    done = program("run", tiny, "hi", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err_lines[0] == f"error: {message}"
    assert done.err_lines[1].startswith("hint: ")
    assert fake_engine.started == []


@pytest.mark.parametrize("arguments", [[], [""], ["", "--json"], ["--raw"]])
def test_an_empty_prompt_without_a_terminal_is_wrong_usage(
    arguments: list[str], program: Program, fake_engine: Fake, tiny: Path
) -> None:
    done = program("run", tiny, *arguments)
    assert done.code == 2
    assert "error: the prompt is empty" in done.err_lines


def test_a_missing_model_is_not_pulled_without_consent(program: Program, fake_engine: Fake) -> None:
    done = program("run", "smollm2-135m", "hi", "--no-input")
    assert done.code == 3
    assert "smollm2-135m is not here yet" in done.err
    assert "localspec pull smollm2-135m" in done.err
    assert fake_engine.started == []


def test_a_missing_model_is_pulled_with_consent_and_stdout_stays_one_document(
    program: Program, fake_engine: Fake, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(
        plan: PullPlan, on_event: Callable[[DownloadProgress], None], **options: object
    ) -> list[PulledFile]:
        on_event(DownloadProgress("target", "m.gguf", 5, 10, 1.0, "downloading"))
        return [PulledFile("target", tiny, 10, "abc", 10, False)]

    monkeypatch.setattr("localspec.hub.pull.pull", pull)
    done = program("run", "smollm2-135m", "hi", "--yes", "--json")
    assert (done.code, json.loads(done.out)["model"]) == (0, "smollm2-135m")
    assert fake_engine.started[0].settings.target.path == tiny
