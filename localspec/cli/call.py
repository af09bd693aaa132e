"""What stands between the command table and the parser: a call that is ready to be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.cli.output import Output

CommandFunction = Callable[..., int | None]
"""`command(output, ...)`; an int that it returns is the exit code."""

GLOBAL_FLAGS = (
    "--json",
    "--quiet",
    "-q",
    "--color",
    "--no-color",
    "--yes",
    "-y",
    "--no-input",
    "--debug",
)
"""Flags of every command; they may stand before its name too."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command with its arguments."""

    output: Output
    """Where the command writes; errors of the command go there as well."""
    run: Callable[[], int | None]


def nearest(word: str, choices: Sequence[str]) -> str:
    """`did you mean X? ` for the choice that looks most like `word`; empty when none does."""
    import difflib

    found = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean {found[0]}? " if found else ""
