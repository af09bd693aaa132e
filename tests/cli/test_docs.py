"""docs/commands.md says of every command what its --help says: no option less, none invented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.cli.test_every_command import every_name

REFERENCE = Path(__file__).parents[2] / "docs" / "commands.md"
_ROW = re.compile(r"^\| `(.+?)` \| (.+) \|$", re.MULTILINE)


def section(name: str) -> str:
    """The part of the reference about one command, or about one of a group."""
    level = "###" if " " in name else "##"
    text = REFERENCE.read_text(encoding="utf-8")
    match = re.search(rf"^{level} {name}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/commands.md has no section on {name}"
    return match.group(1)


def help_rows(text: str) -> dict[str, str]:
    """What stands in the two columns of a help text."""
    rows: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if match := re.match(r"^  (\S.*?)(?:  +(\S.*))?$", line):
            last = match[1]
            rows[last] = match[2] or ""
        elif last and line.startswith("    "):
            # A word with a hyphen may be broken at it.
            rows[last] += ("" if rows[last].endswith("-") else " ") + line.strip()
        elif not line.startswith("  "):
            last = ""
    return {name: " ".join(words.split()) for name, words in rows.items()}


def written_rows(name: str) -> dict[str, str]:
    found = _ROW.findall(section(name).replace("\\|", "¦"))
    return {left.replace("¦", "|"): right.replace("¦", "|") for left, right in found}


@pytest.mark.parametrize("name", every_name())
def test_the_reference_says_what_the_help_says(name: str, program: Program) -> None:
    shown = program(*name.split(), "--help").out
    own, _, everywhere = shown.partition("On every command:")
    tables = re.split(r"^(?=\S.*:$)", own, flags=re.MULTILINE)[1:]
    assert written_rows(name) == help_rows("".join(tables))
    usage = next(line for line in shown.splitlines() if line.startswith("Usage: "))
    assert f"```\n{usage.removeprefix('Usage: ')}\n```" in section(name)
    general = REFERENCE.read_text(encoding="utf-8").partition("## run")[0]
    assert all(option in general for option in re.findall(r"--[a-z-]+", everywhere))


def test_every_command_of_the_reference_is_one() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    groups = {name.split()[0] for name in every_name() if " " in name}
    heads = set(re.findall(r"^###? (.+)$", text, re.MULTILINE)) - {"On every command"}
    assert heads == groups | set(every_name())
