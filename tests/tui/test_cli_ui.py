"""What bare `localspec` does, with and without a terminal."""

from __future__ import annotations

import sys

import pytest

from localspec.cli.app import run_program
from localspec.cli.ui import wants_ui


def test_without_a_terminal_a_bare_localspec_shows_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_program([]) == 0
    assert "Usage: localspec" in capsys.readouterr().out


def test_without_a_terminal_the_ui_s_options_are_refused_with_a_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_program(["--model", "smollm2-135m"]) == 2
    told = capsys.readouterr().err
    assert "needs a terminal" in told
    assert "localspec run" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--screen", "kitchen"], "there is no screen 'kitchen'"),
        (["--screen"], "--screen needs a value"),
        (["--model=x", "--bogus"], "there is no option '--bogus'"),
    ],
)
def test_wrong_options_of_the_ui_are_told(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(arguments) == 2
    assert told in capsys.readouterr().err


def test_on_a_terminal_a_bare_localspec_opens_the_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert wants_ui([])
    assert wants_ui(["--model=x", "--screen", "chat"])
    assert not wants_ui(["run", "x"])
    assert not wants_ui(["--help"])
