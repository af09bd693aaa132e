"""The one sink of the command line: data on stdout, everything else on stderr.

Commands never print: they hand data, notes, warnings and progress to `Output`, which knows about
`--json`, `--quiet`, colours and terminals.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any, TextIO

from localspec.errors import ConfigError, Interrupted, LocalspecError, UsageError

_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_STATUS_INTERVAL_S = 0.1


class Output:
    """Where a command writes. Made once, at the edge, and passed to the command."""

    def __init__(
        self,
        *,
        json: bool = False,
        quiet: bool = False,
        color: bool | None = None,
        assume_yes: bool = False,
        no_input: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        stdin: TextIO | None = None,
    ) -> None:
        self.json = json
        """`--json`: stdout carries JSON and nothing else."""
        self.quiet = quiet
        """`--quiet`: no narration and no progress; warnings and errors stay."""
        self.assume_yes = assume_yes
        """`--yes`: every question is answered with yes."""
        self.no_input = no_input
        """`--no-input`: never ask; a question counts as answered with no."""
        self._color = color
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._stdin = stdin or sys.stdin
        self._status_shown = False
        self._status_time = 0.0
        self._mid_line = False
        self._aside_open = False

    def without_json(self) -> Output:
        """The same sink for a step of a command whose one JSON document comes later."""
        other = copy.copy(self)
        other.json = False
        if self.json:
            other._stdout = self._stderr
        return other

    # --- data: stdout ---

    def line(self, text: str = "") -> None:
        """One line of data for people; silent with `--json`."""
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """Data for people as it stands, at once (a streamed answer); silent with `--json`."""
        if self.json or not text:
            return
        self.clear_status()
        self.end_aside()
        self._stdout.write(text)
        self._stdout.flush()
        self._mid_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Finish a line that `write` left open."""
        if self._mid_line:
            self.write("\n")

    def document(self, value: Any) -> None:
        """The one JSON document of this command; silent without `--json`.

        Dataclasses, paths, tuples and sets become what JSON has for them.
        """
        if self.json:
            self._write_json(value, indent=2)

    def json_line(self, value: Any) -> None:
        """One line of a command that streams JSON; silent without `--json`."""
        if self.json:
            self._write_json(value, indent=None)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
    ) -> None:
        """A table for people; silent with `--json`. `right`: columns that are set to the right."""
        if self.json:
            return
        for index, text in enumerate(format_table(columns, rows, right=right)):
            self.line(self.style(text, "bold") if index == 0 else text)

    # --- narration: stderr ---

    def note(self, text: str) -> None:
        """Narration: what is happening. Hidden by `--quiet`."""
        if not self.quiet:
            self._write_stderr(text)

    def aside(self, text: str) -> None:
        """Narration that streams, such as a model's thinking: dimmed, on a terminal only."""
        if self.quiet or self.json or not self.is_terminal:
            return
        self.clear_status()
        self._stderr.write(self.style(text, "dim", error=True))
        self._stderr.flush()
        self._aside_open = True

    def end_aside(self) -> None:
        """Finish what `aside` streamed, and leave a blank line behind it."""
        if self._aside_open:
            self._aside_open = False
            self._stderr.write("\n\n")
            self._stderr.flush()

    def warn(self, message: str, hint: str = "") -> None:
        """Something the user should know, with a way out."""
        self._write_stderr(f"{self.style('warning:', 'yellow bold', error=True)} {message}")
        if hint:
            self._write_stderr(f"{self.style('hint:', 'cyan', error=True)} {hint}")

    def status(self, text: str, *, force: bool = False) -> None:
        """A line that is rewritten in place; only on a terminal, a few times a second."""
        if self.quiet or not self.is_terminal:
            return
        now = time.monotonic()
        if not force and self._status_shown and now - self._status_time < _STATUS_INTERVAL_S:
            return
        self._status_time = now
        width = _terminal_width(self._stderr) - 1
        # A line that is already half written on stdout would be overwritten by ours.
        if self._mid_line and self._stdout_is_terminal:
            return
        self._stderr.write("\r\x1b[K" + text[:width])
        self._stderr.flush()
        self._status_shown = True

    def progress(self, label: str, fraction: float, detail: str = "") -> None:
        """The status line as a bar; `fraction` from 0.0 to 1.0."""
        filled = round(24 * min(max(fraction, 0.0), 1.0))
        bar = "█" * filled + "░" * (24 - filled)
        self.status(f"{label} {bar} {fraction:4.0%} {detail}".rstrip(), force=fraction >= 1.0)

    def clear_status(self) -> None:
        """Take the status line away."""
        if self._status_shown:
            self._stderr.write("\r\x1b[K")
            self._stderr.flush()
            self._status_shown = False

    def error(self, error: LocalspecError) -> None:
        """One line that says what, one line of hint; with `--json` also a JSON line on stdout:
        {"error", "message", "hint", "fields", "exit_code"}. That the user stopped the program is
        one plain line.

        A ConfigError has one more line for each problem of its file.
        """
        from localspec.cli.hints import hint_for

        self.end_line()
        hint = hint_for(error)
        if self.json:
            told = {**error.as_dict(), "hint": hint, "exit_code": error.exit_code}
            self._write_json(told, indent=None)
        first, *more = _lines(error)
        if error.exit_code == Interrupted.exit_code:
            self._write_stderr(first)
            return
        self._write_stderr(f"{self.style('error:', 'red bold', error=True)} {first}")
        for line in more:
            self._write_stderr(f"  {line}")
        if hint:
            self._write_stderr(f"{self.style('hint:', 'cyan', error=True)} {_one_line(hint)}")

    # --- questions ---

    @property
    def can_ask(self) -> bool:
        """Whether a question would reach somebody: terminals on both sides and not `--no-input`."""
        return not self.no_input and not self.json and self._stdin.isatty() and self.is_terminal

    def confirm(self, question: str) -> bool:
        """A yes/no question on stderr; Enter means yes. `--yes` answers it; nobody there is no."""
        if self.assume_yes:
            return True
        if not self.can_ask:
            return False
        self.clear_status()
        self._stderr.write(f"{question} [Y/n] ")
        self._stderr.flush()
        answer = self._stdin.readline()
        # End of input is not consent.
        return bool(answer) and answer.strip().lower() in ("", "y", "yes")

    def read_stdin(self) -> str | None:
        """Everything piped into the program, or None where stdin is a terminal or closed."""
        if self._stdin.closed or not _is_piped(self._stdin):
            return None
        # Bytes, because in some locales Python reads what is not UTF-8 without complaint.
        buffer = getattr(self._stdin, "buffer", None)
        try:
            text = self._stdin.read() if buffer is None else buffer.read().decode("utf-8")
            return text.replace("\r\n", "\n").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            wrong = error.object[error.start]
            raise UsageError(
                f"standard input is not UTF-8 text: byte 0x{wrong:02x} at position {error.start}",
                hint="save it as UTF-8, or convert it: iconv -f latin1 -t utf-8",
            ) from error

    # --- terminals and colours ---

    @property
    def is_terminal(self) -> bool:
        """Whether stderr is a terminal that understands control codes."""
        return self._stderr.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def stdin_is_terminal(self) -> bool:
        return not self._stdin.closed and self._stdin.isatty()

    @property
    def _stdout_is_terminal(self) -> bool:
        return self._stdout.isatty()

    def colors(self, *, error: bool = False) -> bool:
        """Whether colours go to stdout, or to stderr: `--color`/`--no-color`, else NO_COLOR
        (https://no-color.org), else FORCE_COLOR, else whether it is a terminal."""
        if self.json and not error:
            return False
        if self._color is not None:
            return self._color
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        stream = self._stderr if error else self._stdout
        return stream.isatty() and os.environ.get("TERM") != "dumb"

    def style(self, text: str, style: str, *, error: bool = False) -> str:
        """`text` in a style such as `bold green`, where colours are on for that stream."""
        if not self.colors(error=error) or not text:
            return text
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"

    # --- inside ---

    def _write_json(self, value: Any, *, indent: int | None) -> None:
        self.clear_status()
        # allow_nan: NaN is not JSON; a figure that does not exist is null, never NaN.
        text = json.dumps(
            value, indent=indent, default=_jsonable, ensure_ascii=False, allow_nan=False
        )
        self._stdout.write(text + "\n")
        self._stdout.flush()

    def _write_stderr(self, text: str) -> None:
        self.clear_status()
        self.end_aside()
        if self._mid_line and self._stdout_is_terminal and self._stderr.isatty():
            self._stderr.write("\n")
            self._mid_line = False
        self._stderr.write(text + "\n")
        self._stderr.flush()


def format_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()
) -> list[str]:
    """Lines of a table with aligned columns, headings first; no trailing blanks."""
    lines = [list(columns), *[list(row) for row in rows]]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _lines(error: LocalspecError) -> list[str]:
    """The message in one line; of a file with many mistakes, one more for each of them."""
    if isinstance(error, ConfigError) and len(error.fields.get("problems", ())) > 1:
        return [_one_line(line) for line in error.message.splitlines() if line.strip()]
    return [_one_line(error.message)]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _is_piped(stream: TextIO) -> bool:
    """Whether somebody sends something: a pipe, a file or a socket, not a terminal or /dev/null."""
    if stream.isatty():
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return True  # a text buffer in place of the process's own input
    return not stat.S_ISCHR(mode)


def _terminal_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
