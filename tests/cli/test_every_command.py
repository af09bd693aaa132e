"""Every command in every mode: what may stand on stdout, on stderr, and in the exit code."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.cli.app import COMMANDS
from tests.cli.conftest import Program
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_gguf import write_tiny

WORKING = {
    "run": ("run", "{tiny}", "hi"),
    "list": ("list",),
    "pull": ("pull", "smollm2-135m", "--dry-run"),
    "doctor": ("doctor",),
    "fit": ("fit", "{tiny}", "--vram", "1GiB"),
    "check": ("check", "{tiny}", "{smaller}"),
    "cache info": ("cache", "info"),
    "cache build": ("cache", "build", "{text}", "--model", "{tiny}", "-o", "{out}"),
}
"""A quick call of each command that needs neither a network nor a download."""

FAILING = {
    "run": (("run", "{nothing}", "hi"), 6),
    "pull": (("pull", "no-such-pair"), 2),
    "rm": (("rm", "no-such-pair"), 2),
    "fit": (("fit", "{nothing}"), 6),
    "check": (("check", "{tiny}", "{nothing}"), 6),
    "bench": (("bench", "{nothing}"), 6),
    "cache info": (("cache", "info", "{nothing}"), 1),
    "cache merge": (("cache", "merge", "{nothing}", "-o", "{out}"), 1),
}


def every_name() -> list[str]:
    """Every command of the table; of a group, each of its commands."""
    names = []
    for entry in COMMANDS:
        inner = None
        if importlib.util.find_spec(entry.module) is not None:
            inner = getattr(importlib.import_module(entry.module), "subcommands", None)
        names += [f"{entry.name} {name}" for name in inner] if inner else [entry.name]
    return names


@pytest.fixture
def places(tiny: Path, tmp_path: Path, fake_engine: type[FakeEngine]) -> dict[str, Path]:
    text = tmp_path / "text.txt"
    text.write_text("some text to learn from", encoding="utf-8")
    return {
        "tiny": tiny,
        "smaller": write_tiny(tmp_path / "smaller.gguf", "llama", n_layer=1),
        "text": text,
        "out": tmp_path / "out.bin",
        "nothing": tmp_path / "nothing.gguf",
    }


def filled(arguments: tuple[str, ...], places: dict[str, Path]) -> list[str]:
    return [argument.format(**places) for argument in arguments]


def parsed(text: str) -> list[Any]:
    """The JSON in `text`: one document, or one on each line. Raises ValueError for others."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", every_name())
def test_help_is_on_stdout_and_names_the_global_options(name: str, program: Program) -> None:
    done = program(*name.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: localspec {name} ")
    assert "On every command:" in done.out
    assert all(len(line) <= 100 for line in done.out.splitlines())


@pytest.mark.parametrize("name", every_name())
def test_an_unknown_option_is_two_lines_and_code_2(name: str, program: Program) -> None:
    done = program(*name.split(), "--no-such-option")
    assert (done.code, done.out) == (2, "")
    assert done.err_lines[0] == "error: there is no option --no-such-option"
    assert len(done.err_lines) == 2


@pytest.mark.parametrize("name", WORKING)
def test_json_is_all_there_is_on_stdout(
    name: str, program: Program, places: dict[str, Path]
) -> None:
    done = program(*filled(WORKING[name], places), "--json")
    assert done.code == 0
    assert parsed(done.out)


@pytest.mark.parametrize("name", WORKING)
def test_quiet_keeps_the_data_and_drops_the_narration(
    name: str, program: Program, places: dict[str, Path]
) -> None:
    loud, quiet = (program(*filled(WORKING[name], places), *flags) for flags in ((), ("--quiet",)))
    assert (loud.code, quiet.code) == (0, 0)
    assert quiet.err == ""
    assert bool(quiet.out) == bool(loud.out)
    assert "\x1b" not in loud.out + loud.err


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_is_a_line_a_hint_and_a_code(
    name: str, program: Program, places: dict[str, Path]
) -> None:
    arguments, code = FAILING[name]
    done = program(*filled(arguments, places))
    assert (done.code, done.out) == (code, "")
    assert done.err_lines[0].startswith("error: ")
    assert all(line.startswith("hint: ") for line in done.err_lines[1:])
    assert len(done.err_lines) <= 2
    as_json = program(*filled(arguments, places), "--json")
    (document,) = parsed(as_json.out)
    assert document["exit_code"] == as_json.code == code
    assert f"error: {document['message']}" == done.err_lines[0]


@pytest.mark.parametrize("name", FAILING)
def test_debug_shows_where_a_failure_came_from(
    name: str, program: Program, places: dict[str, Path]
) -> None:
    done = program(*filled(FAILING[name][0], places), "--debug")
    assert "Traceback (most recent call last)" in done.err


@pytest.mark.parametrize("shown", [True, False])
def test_colours_follow_the_flags(shown: bool, program: Program, places: dict[str, Path]) -> None:
    flag = "--color" if shown else "--no-color"
    done = program("run", str(places["nothing"]), "hi", flag)
    assert ("\x1b[" in done.err) is shown


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
