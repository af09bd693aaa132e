"""The chat as a user has it: a real terminal, a real engine, a tiny model."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Program
from tests.support.pty_program import PtyProgram

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX"),
]

ENDLESS = ("--temp", "0", "--context-shift", "--threads", "1", "--stop", "never this")


def chat(model: Path, home: Path, *options: str) -> PtyProgram:
    program = PtyProgram("run", str(model), *options, environment={"LOCALSPEC_HOME": str(home)})
    program.read_until("/help shows the commands")
    program.read_until(">")
    return program


def test_ctrl_c_stops_the_answer_and_keeps_the_chat(
    program: Program, tiny: Path, home: Path
) -> None:
    once = program("run", tiny, "hello", "--draft", "none", "--max-tokens", "8", *ENDLESS)
    with chat(tiny, home, "--draft", "none", *ENDLESS) as shown:
        shown.type("hello\r")
        # The answer has begun once its first words are there.
        shown.read_until(once.out.strip())
        shown.type("\x03")
        shown.read_until("interrupted")
        shown.type("/draft ngram\r")
        shown.read_until("--draft ngram from the next answer on")
        shown.type("/quit\r")
        assert shown.end() == 0


def test_a_killed_engine_is_started_again_for_the_next_question(tiny: Path, home: Path) -> None:
    with chat(tiny, home, "--draft", "ngram", "--max-tokens", "8", *ENDLESS) as program:
        engine = next(
            child
            for child in psutil.Process(program.pid).children(recursive=True)
            if "spawn_main" in " ".join(child.cmdline())
        )
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()
        program.type("hello\r")
        answered = program.read_until("tok/s")
        assert "Traceback" not in answered
        program.type("/quit\r")
        assert program.end() == 0


def test_ctrl_c_while_loading_ends_the_program(tiny: Path, home: Path) -> None:
    with PtyProgram(
        "run", str(tiny), "hello", *ENDLESS, environment={"LOCALSPEC_HOME": str(home)}
    ) as program:
        program.read_until("loading the target")
        program.type("\x03")
        assert program.end() == 130
