"""The output sink: what goes where, in every mode."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from localspec.cli.output import Output, format_table
from localspec.errors import BadModelFile, UsageError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Thing:
    path: Path
    sizes: tuple[int, ...]


def sink(**options: bool | None) -> tuple[Output, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Output(stdout=out, stderr=err, stdin=io.StringIO(), **options), out, err  # type: ignore[arg-type]


def test_data_goes_to_stdout_and_narration_to_stderr() -> None:
    output, out, err = sink()
    output.line("data")
    output.note("working")
    output.document({"a": 1})
    assert (out.getvalue(), err.getvalue()) == ("data\n", "working\n")


def test_json_mode_keeps_stdout_to_json() -> None:
    output, out, _ = sink(json=True)
    output.line("for people")
    output.table(["a"], [["b"]])
    output.document(Thing(Path("x.gguf"), (1, 2)))
    assert json.loads(out.getvalue()) == {"path": "x.gguf", "sizes": [1, 2]}


def test_quiet_hides_narration_but_neither_warnings_nor_errors() -> None:
    output, out, err = sink(quiet=True)
    output.note("working")
    output.warn("slow", "do this")
    output.error(BadModelFile("x.gguf is a text file", hint="name a model"))
    assert out.getvalue() == ""
    assert err.getvalue().splitlines() == [
        "warning: slow",
        "hint: do this",
        "error: x.gguf is a text file",
        "hint: name a model",
    ]


def test_error_is_one_line_even_when_the_message_is_not() -> None:
    output, _, err = sink()
    output.error(BadModelFile("two\nlines", hint="two\nhints"))
    assert err.getvalue() == "error: two lines\nhint: two hints\n"


def test_json_error_is_a_document_with_its_exit_code() -> None:
    output, out, err = sink(json=True)
    output.error(BadModelFile("bad", hint="mend it", path="x"))
    assert json.loads(out.getvalue()) == {
        "error": "BadModelFile",
        "message": "bad",
        "hint": "mend it",
        "fields": {"path": "x"},
        "exit_code": 6,
    }
    assert err.getvalue().startswith("error: bad\n")


def test_progress_is_drawn_only_on_a_terminal_and_leaves_nothing_behind() -> None:
    output, _, err = sink()
    output.progress("load", 0.5)
    assert err.getvalue() == ""
    terminal = Terminal()
    on_terminal = Output(stdout=io.StringIO(), stderr=terminal, stdin=io.StringIO())
    on_terminal.progress("load", 0.5, "98 MB")
    on_terminal.note("done")
    drawn = terminal.getvalue()
    assert "50%" in drawn
    assert drawn.endswith("\r\x1b[Kdone\n")


@pytest.mark.parametrize(
    ("environment", "flag", "terminal", "expected"),
    [
        ({}, None, True, True),
        ({}, None, False, False),
        ({"NO_COLOR": "1"}, None, True, False),
        ({"NO_COLOR": "1"}, True, True, True),
        ({"FORCE_COLOR": "1"}, None, False, True),
        ({"TERM": "dumb"}, None, True, False),
        ({}, False, True, False),
    ],
)
def test_colour_rules(
    environment: dict[str, str],
    flag: bool | None,
    terminal: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    output = Output(color=flag, stdout=stream, stderr=stream, stdin=io.StringIO())
    assert output.colors() is expected
    assert (output.style("x", "bold red") == "x") is not expected


@pytest.mark.parametrize(
    ("typed", "answer"), [("\n", True), ("y\n", True), ("no\n", False), ("", False)]
)
def test_a_question_is_asked_only_of_a_terminal(typed: str, answer: bool) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked = Output(stdout=io.StringIO(), stderr=Terminal(), stdin=Keyboard(typed))
    assert asked.confirm("Download?") is answer
    unasked = Output(stdout=io.StringIO(), stderr=io.StringIO(), stdin=Keyboard(typed))
    assert unasked.confirm("Download?") is False
    sure = Output(assume_yes=True, stdout=io.StringIO(), stderr=io.StringIO(), stdin=io.StringIO())
    assert sure.confirm("Download?") is True


def test_numbers_that_json_lacks_are_refused() -> None:
    output, _, _ = sink(json=True)
    with pytest.raises(ValueError, match="JSON"):
        output.document({"rate": float("nan")})


def test_table_aligns_columns() -> None:
    assert format_table(["name", "size"], [["a", "10"], ["long", "7"]], right=[1]) == [
        "name  size",
        "a       10",
        "long     7",
    ]


def on_terminal() -> tuple[Output, Terminal, Terminal]:
    out, err = Terminal(), Terminal()
    return Output(color=False, stdout=out, stderr=err, stdin=io.StringIO()), out, err


def test_thinking_streams_to_stderr_and_ends_before_the_answer() -> None:
    output, out, err = on_terminal()
    output.aside("hm")
    output.aside("m")
    output.write("Yes.")
    assert (out.getvalue(), err.getvalue()) == ("Yes.", "hmm\n\n")


def test_thinking_is_not_shown_where_nobody_reads_it() -> None:
    output, _, err = sink()
    output.aside("hm")
    assert err.getvalue() == ""


def test_an_error_begins_a_line_of_its_own() -> None:
    output, out, err = on_terminal()
    output.write("half an ans")
    output.error(BadModelFile("lost", hint="look"))
    assert out.getvalue() == "half an ans\n"
    assert err.getvalue() == "error: lost\nhint: look\n"


def test_a_step_of_a_json_command_leaves_stdout_alone() -> None:
    output, out, err = sink(json=True)
    step = output.without_json()
    step.line("downloaded")
    step.json_line({"done": 1})
    output.document({"x": 1})
    assert json.loads(out.getvalue()) == {"x": 1}
    assert err.getvalue() == "downloaded\n"


def test_only_what_is_piped_is_read() -> None:
    def reader(stdin: io.StringIO) -> str | None:
        return Output(stdout=io.StringIO(), stderr=io.StringIO(), stdin=stdin).read_stdin()

    assert reader(io.StringIO("piped")) == "piped"
    assert reader(Terminal("typed")) is None
    closed = io.StringIO()
    closed.close()
    assert reader(closed) is None


def test_text_that_is_not_utf8_is_wrong_usage() -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8")
    with pytest.raises(UsageError, match="not UTF-8"):
        Output(stdout=io.StringIO(), stderr=io.StringIO(), stdin=stdin).read_stdin()
