"""`localspec bench` from its options to its outputs, on an engine of known speed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from localspec.bench.history import measured_speedup
from localspec.cli import app
from localspec.engine.client import EngineClient
from localspec.engine.settings import EngineSettings
from localspec.errors import EngineError, Interrupted
from tests.support.bench_fakes import FakeEngine
from tests.support.tiny_gguf import write_tiny

SPEEDS = {"none": 10.0, "ngram": 15.0, "model": 12.0, "auto": 20.0}

Run = Callable[..., tuple[int, str, str]]


class LoadedEngine(FakeEngine):
    """With what EngineClient has besides."""

    facts: dict[str, Any] = {"n_ctx": 512, "description": "tiny"}  # noqa: RUF012 - never changed
    settings: EngineSettings
    pid: int | None = None
    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> LoadedEngine:
    made = LoadedEngine(SPEEDS)

    async def start(settings: EngineSettings, on_event: Any) -> LoadedEngine:
        made.settings = settings
        return made

    monkeypatch.setattr(EngineClient, "start", start)
    return made


@pytest.fixture
def bench(
    tmp_path: Path,
    engine: LoadedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.setenv("LOCALSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    model = write_tiny(tmp_path / "tiny.gguf", "llama")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = app.run_program(["bench", str(model), "--repeats", "1", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_people_get_tables_a_chart_and_a_sentence(bench: Run, engine: LoadedEngine) -> None:
    code, out, err = bench("--workload", "code,chat", "--limit", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["METHOD", "TOK/S", "SPEED-UP"]
    assert any(line.split()[:3] == ["auto", "20.0", "2.00×"] for line in lines)
    assert any("█" in line for line in lines)
    assert lines[-2].startswith("On this machine auto is 2.00× plain")
    assert lines[-1].startswith("Against ngram, auto is 1.33×")
    assert all(len(line) <= 100 for line in lines[:-2])
    assert "answers to measure" in err
    assert engine.closed


def test_json_is_one_document_and_nothing_else(bench: Run) -> None:
    code, out, _ = bench("--json", "--workload", "code", "--limit", "1", "--methods", "auto")
    assert code == 0
    document = json.loads(out)
    assert document["finished"] is True
    assert [item["method"] for item in document["summary"]] == ["plain", "auto"]
    assert document["summary"][1]["geomean_speedup"] == pytest.approx(2.0)
    assert document["settings"]["max_tokens"] == 128
    assert document["workloads"][0]["prompts"] == 1


def test_a_finished_result_is_remembered_and_can_be_left_out(bench: Run, tmp_path: Path) -> None:
    model = str(tmp_path / "tiny.gguf")
    bench("--workload", "code", "--limit", "1", "--no-remember")
    assert measured_speedup(model) is None
    _, out, _ = bench("--workload", "code", "--limit", "1", "--json")
    assert measured_speedup(json.loads(out)["model"]) == pytest.approx(2.0)


def test_the_chart_is_written_as_svg(bench: Run, tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    code, _, _ = bench("--workload", "code", "--limit", "1", "--svg", str(path))
    assert code == 0
    ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert list(tmp_path.glob("*.part")) == []


def test_the_users_own_cache_is_neither_read_nor_taught(
    bench: Run, engine: LoadedEngine, tmp_path: Path
) -> None:
    bench("--workload", "code", "--limit", "1")
    assert engine.settings.lookup_dynamic is None
    assert engine.settings.lookup_folder is None
    bench("--workload", "code", "--limit", "1", "--warm")
    assert engine.settings.lookup_folder is None
    kept = engine.settings.lookup_dynamic
    assert kept is not None
    assert tmp_path not in kept.parents
    assert not kept.parent.exists()


def test_own_prompts_are_measured_instead(bench: Run, engine: LoadedEngine, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("first of mine\nsecond of mine\n")
    code, out, _ = bench("--prompts", str(mine), "--json", "--temp", "0.5", "--seed", "9")
    assert code == 0
    assert [w["name"] for w in json.loads(out)["workloads"]] == ["own"]
    asked = {request.messages[-1].content for request in engine.requests}
    assert {"first of mine", "second of mine"} < asked
    assert {request.sampling.temp for request in engine.requests} == {0.5}


def test_fixed_lengths_are_added(bench: Run) -> None:
    _, out, _ = bench("--fixed", "--workload", "qa", "--limit", "1", "--json")
    methods = [item["method"] for item in json.loads(out)["summary"]]
    assert methods == ["plain", "ngram", "auto", "ngram@2", "ngram@4", "ngram@8"]


def test_a_stopped_run_reports_what_it_has_and_says_so(
    bench: Run, engine: LoadedEngine, tmp_path: Path
) -> None:
    import signal

    def interrupt() -> None:
        if len(engine.requests) == 6:
            signal.raise_signal(signal.SIGINT)

    engine.on_event = interrupt
    code, out, _ = bench("--workload", "qa", "--json")
    assert code == Interrupted.exit_code
    document = json.loads(out)
    assert document["finished"] is False
    assert document["results"]
    assert measured_speedup(document["model"]) is None
    assert engine.closed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "poetry"], "poetry"),
        (["--methods", "medusa"], "medusa"),
        (["--methods", "model"], "needs a draft model"),
        (["--workload", "qa", "--prompts", "x.txt"], "exclude each other"),
        (["--svg", "/nonexistent/folder/x.svg"], "no folder"),
        (["--against", "/nonexistent/llama-server"], "cannot start"),
        (["--repeats", "0"], "repeats"),
    ],
)
def test_wrong_usage_is_told_in_one_line_with_code_2(
    bench: Run, arguments: list[str], said: str
) -> None:
    code, out, err = bench(*arguments)
    assert code == 2
    assert out == ""
    assert said in next(line for line in err.splitlines() if line.startswith("error:"))


def test_a_failure_in_the_middle_reports_what_was_measured(
    bench: Run, engine: LoadedEngine
) -> None:
    def fail() -> None:
        if len(engine.requests) > 9:
            raise EngineError("the engine is gone")

    engine.on_event = fail
    code, out, err = bench("--workload", "qa", "--json")
    assert code == EngineError.exit_code
    assert "the engine is gone" in err
    document = json.loads(out)
    assert document["finished"] is False
    assert document["settings"]["error"] == "the engine is gone"
    assert [item["method"] for item in document["summary"]] == ["plain", "ngram", "auto"]


def test_memory_stands_beside_its_plan(bench: Run, engine: LoadedEngine) -> None:
    engine.pid = os.getpid()
    _, out, err = bench("--workload", "qa", "--limit", "1", "--json")
    host = json.loads(out)["settings"]["memory"][-1]
    assert host["device"] == "host"
    assert host["planned"] > 0
    assert host["taken"] > 0
    assert "memory of host" in err
