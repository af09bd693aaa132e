"""`localspec doctor`, and the warning of `run`, on machines that are not this one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.errors import EngineCrashed
from localspec.llama import advice
from localspec.llama.advice import Gpu, Machine
from tests.cli.conftest import Program
from tests.support.fake_engine import FakeEngine

CARD = Gpu("nvidia", "NVIDIA GeForce RTX 4090")
IDLE = Machine("Linux", "x86_64", (CARD,), (), tools=frozenset({"nvcc"}), python="python3")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose card lies idle."""
    monkeypatch.setattr(advice, "detect_machine", lambda: IDLE)
    monkeypatch.setattr(advice, "installed_backends", lambda: IDLE.backends)
    return IDLE


def test_an_idle_card_is_a_problem_with_the_command_that_mends_it(
    program: Program, machine: Machine
) -> None:
    done = program("doctor")
    command = 'CMAKE_ARGS="-DGGML_CUDA=on" python3 -m pip install --force-reinstall'
    assert done.code == 0
    assert "card       NVIDIA GeForce RTX 4090" in done.out
    assert command in done.out
    report = json.loads(program("doctor", "--json").out)
    assert report["ok"] is False
    assert report["problems"][0]["command"].startswith(command)
    assert report["gpus"] == [
        {"vendor": "nvidia", "name": "NVIDIA GeForce RTX 4090", "driver": True}
    ]


def test_a_machine_without_problems_is_told_so(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, "detect_machine", lambda: replace(IDLE, gpus=()))
    assert json.loads(program("doctor", "--json").out)["problems"] == []
    assert "Everything that localspec needs is here." in program("doctor").out


def test_a_build_whose_backend_finds_no_device_is_told(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, "detect_machine", lambda: replace(IDLE, backends=("cuda",)))
    (problem,) = json.loads(program("doctor", "--json").out)["problems"]
    assert problem["problem"] == "this llama.cpp is built for cuda, but finds no such device"


def test_a_library_that_does_not_start_is_reported_and_code_1(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(function: object) -> None:
        raise EngineCrashed("the engine's process ended (SIGILL)", hint="build it here")

    monkeypatch.setattr("localspec.engine.child.run_in_child", crash)
    monkeypatch.setattr(advice, "detect_machine", lambda: replace(IDLE, gpus=()))
    done = program("doctor", "--json")
    report = json.loads(done.out)
    assert (done.code, report["llama_cpp"]) == (1, None)
    assert report["problems"][0]["problem"] == "the engine's process ended (SIGILL)"


def test_run_warns_of_an_idle_card_and_answers(
    program: Program, machine: Machine, fake_engine: type[FakeEngine], tiny: Path
) -> None:
    done = program("run", tiny, "hi")
    assert done.code == 0
    assert done.err_lines == [
        "warning: NVIDIA GeForce RTX 4090 is here, but this llama.cpp runs on the CPU only",
        "hint: localspec doctor shows what mends it",
    ]
