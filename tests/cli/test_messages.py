"""What is said when something goes wrong: one line, one hint, whatever it was."""

from __future__ import annotations

import io
import json

import pytest

from localspec import errors
from localspec.cli import app
from localspec.cli.hints import hint_for
from localspec.cli.output import Output
from tests.cli.conftest import Program


def kinds(kind: type[errors.LocalspecError]) -> list[type[errors.LocalspecError]]:
    return [kind, *(deeper for below in kind.__subclasses__() for deeper in kinds(below))]


@pytest.mark.parametrize("kind", kinds(errors.LocalspecError), ids=lambda kind: kind.__name__)
def test_every_error_has_one_line_and_one_hint(kind: type[errors.LocalspecError]) -> None:
    shown = io.StringIO()
    Output(stdout=io.StringIO(), stderr=shown).error(kind("it went\nwrong"))
    lines = shown.getvalue().splitlines()
    if kind.exit_code == 130:
        assert lines == ["it went wrong"]
        return
    assert len(lines) == 2
    assert lines[0] == "error: it went wrong"
    assert lines[1].startswith("hint: ")
    assert len(lines[1]) > len("hint: ")


def test_the_errors_own_hint_wins() -> None:
    assert hint_for(errors.BadModelFile("x", hint="look here")) == "look here"


def test_a_program_that_was_stopped_says_so_without_an_error(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "_resolve", interrupted)
    done = program("list")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")
    told = json.loads(program("list", "--json").out)
    assert (told["error"], told["exit_code"]) == ("Interrupted", 130)


@pytest.mark.parametrize("errors_mode", ["strict", "surrogateescape"])
def test_input_that_is_not_utf_8_is_told_with_the_place_of_the_wrong_byte(
    errors_mode: str,
) -> None:
    piped = io.TextIOWrapper(
        io.BytesIO(b"a" * 5000 + b"\xff\n"), encoding="utf-8", errors=errors_mode
    )
    with pytest.raises(errors.UsageError, match=r"byte 0xff at position 5000") as caught:
        Output(stdin=piped).read_stdin()
    assert "iconv" in caught.value.hint


def test_input_comes_without_the_marks_of_other_systems() -> None:
    piped = io.TextIOWrapper(io.BytesIO("\ufeffgrüße\r\nx".encode()), encoding="ascii")
    assert Output(stdin=piped).read_stdin() == "grüße\nx"
