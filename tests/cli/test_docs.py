"""docs/commands.md knows every command and every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.cli.test_every_command import every_name

REFERENCE = Path(__file__).parents[2] / "docs" / "commands.md"


def section(name: str) -> str:
    """The part of the reference about one command, or about one of a group."""
    level = "###" if " " in name else "##"
    text = REFERENCE.read_text(encoding="utf-8")
    match = re.search(rf"^{level} {name}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/commands.md has no section on {name}"
    return match.group(1)


@pytest.mark.parametrize("name", every_name())
def test_every_option_is_in_the_reference(name: str, program: Program) -> None:
    own, _, everywhere = program(*name.split(), "--help").out.partition("On every command:")
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", own, re.MULTILINE))
    written = section(name)
    assert not {option for option in options if option not in written}
    general = REFERENCE.read_text(encoding="utf-8").partition("## run")[0]
    assert all(option in general for option in re.findall(r"--[a-z-]+", everywhere))
