"""The edge of the command line: dispatch, usage errors, exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from typing import Annotated

import pytest
import typer

from localspec import __version__
from localspec.cli import app
from localspec.cli.call import CommandFunction
from localspec.cli.output import Output
from localspec.cli.parser import parse
from localspec.errors import DoesNotFit, EngineCrashed


def example(
    output: Output,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Which.")],
    temp: Annotated[float, typer.Option(metavar="NUMBER", min=0, help="Heat.")] = 0.8,
    fail: Annotated[str, typer.Option(help="How to fail.")] = "",
) -> int | None:
    """Do one thing."""
    if fail == "fit":
        raise DoesNotFit("24 GiB needed, 8 GiB free", hint="use a smaller one", free=8)
    if fail == "crash":
        raise EngineCrashed("the engine ended", log=["GGML_ASSERT(x)", "end"])
    if fail == "bug":
        raise ValueError("oops")
    if fail == "stop":
        raise KeyboardInterrupt
    if fail == "pipe":
        raise BrokenPipeError
    if fail == "code":
        return 4
    output.line(f"{model} {temp}")
    output.note("narration")
    output.document({"model": model})
    return None


@pytest.fixture(autouse=True)
def example_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    single = types.ModuleType("localspec.cli.single")
    single.command = example  # type: ignore[attr-defined]
    group = types.ModuleType("localspec.cli.group")
    group.subcommands = {"sub": example}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, single.__name__, single)
    monkeypatch.setitem(sys.modules, group.__name__, group)
    entries = (app.CommandEntry("single", "One.", "All"), app.CommandEntry("group", "More.", "All"))
    monkeypatch.setattr(app, "COMMANDS", entries)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.run_program(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", [("single",), ("group", "sub")])
def test_a_command_gets_its_options(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *command, "m", "--temp", "0.5") == (0, "m 0.5\n", "narration\n")


@pytest.mark.parametrize(
    "arguments", [("--json", "single", "m"), ("single", "m", "--json"), ("single", "--json", "m")]
)
def test_json_may_stand_anywhere(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, *arguments)
    assert (code, json.loads(out)) == (0, {"model": "m"})


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("singel",), "there is no command 'singel'", "did you mean single?"),
        (("--tmep",), "there is no option '--tmep'", "localspec --help"),
        (("group", "sbu"), "there is no command 'group sbu'", "did you mean sub?"),
        (("single", "m", "--tmep", "1"), "there is no option --tmep", "did you mean --temp?"),
        (("single", "m", "--temp", "x"), "--temp x: it must be a valid number", "single --help"),
        (("single", "m", "--temp=-1"), "--temp=-1: it must be greater", "single --help"),
        (("single", "m", "--temp"), "option '--temp' requires", "single --help"),
        (("single",), "missing argument 'MODEL'", "single --help"),
        (("single", "m", "extra"), "extra", "single --help"),
    ],
)
def test_wrong_usage_is_two_lines_and_exit_code_2(
    arguments: tuple[str, ...], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 2)
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert hint in lines[1]


@pytest.mark.parametrize(
    ("fail", "code", "first"),
    [
        ("fit", 4, "error: 24 GiB needed, 8 GiB free"),
        ("bug", 1, "error: internal error: ValueError: oops"),
        ("stop", 130, "interrupted"),
    ],
)
def test_failures_are_a_line_and_a_code_and_never_a_traceback(
    fail: str, code: int, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, "single", "m", "--fail", fail)
    assert (found, out) == (code, "")
    assert err.splitlines()[0] == first
    assert "Traceback" not in err


@pytest.mark.parametrize("fail", ["fit", "bug"])
def test_debug_shows_the_traceback(fail: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "single", "m", "--fail", fail, "--debug")
    assert "Traceback (most recent call last)" in err


def test_debug_shows_the_log_of_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "single", "m", "--fail", "crash", "--debug")
    assert "log: GGML_ASSERT(x)\nlog: end\nerror: the engine ended\n" in err
    assert "GGML" not in run(capsys, "single", "m", "--fail", "crash")[2]


def test_json_error_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "single", "m", "--fail", "fit", "--json")
    document = json.loads(out)
    assert (code, document["exit_code"], document["fields"]) == (4, 4, {"free": 8})


def test_a_returned_number_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "single", "m", "--fail", "code")[0] == 4


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"localspec {__version__}\n", "")
    for arguments in ((), ("--help",), ("-h",), ("help",)):
        code, out, err = run(capsys, *arguments)
        assert (code, err) == (0, "")
        assert "single" in out
    code, out, _ = run(capsys, "single", "--help")
    assert code == 0
    assert "--temp NUMBER" in out
    assert out.index("--temp") < out.index("On every command")
    assert out.startswith("Usage: localspec single [OPTIONS] MODEL\n")
    assert "sub  Do one thing" in run(capsys, "group")[1]


@pytest.mark.parametrize("metavar", ["FILE", "[FILE]", "FILE...", "[FILE]..."])
def test_the_usage_line_shows_what_may_be_left_out_and_what_repeats(metavar: str) -> None:
    def optional(output: Output, files: list[str] | None = None) -> None:
        """Do it."""

    def needed(output: Output, files: list[str]) -> None:
        """Do it."""

    # Annotations are text in this module, in which the value of `metavar` is not known.
    argument = typer.Argument(metavar=metavar)
    optional.__annotations__["files"] = Annotated[list[str] | None, argument]
    needed.__annotations__["files"] = Annotated[list[str], argument]
    assert usage(optional) == "Usage: localspec x [OPTIONS] [FILE]..."
    assert usage(needed) == "Usage: localspec x [OPTIONS] FILE..."


def usage(function: CommandFunction) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        parse("localspec x", function, ["--help"]).run()
    return shown.getvalue().splitlines()[0]
