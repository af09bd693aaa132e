"""A home of its own for every test, and the fake engine in place of the real one."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from localspec.cli.app import run_program
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_gguf import write_tiny


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def err_lines(self) -> list[str]:
        return self.err.splitlines()


class Program:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str | Path, stdin: str | None = None) -> Outcome:
        """stdin: what is piped in; None is nothing, as from /dev/null."""
        with Path(os.devnull).open() as nothing:
            source = nothing if stdin is None else io.StringIO(stdin)
            self._monkeypatch.setattr(sys, "stdin", source)
            self._capsys.readouterr()
            code = run_program([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Outcome(code, captured.out, captured.err)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("LOCALSPEC_HOME", str(folder))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return folder


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(capsys, monkeypatch)


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeEngine]]:
    """Commands get this engine instead of a child process."""
    monkeypatch.setattr("localspec.engine.client.EngineClient", FakeEngine)
    FakeEngine.reset()
    yield FakeEngine
    FakeEngine.reset()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model file that llama.cpp runs."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf", "llama")
