"""The entry point: finds the command, lets Typer read its options, runs it, tells what went wrong.

Only the module of the command that was asked for is imported. A command module offers either

    def command(output: Output, ...) -> int | None

with `typing.Annotated` Typer options and arguments, or `subcommands`, a mapping of names to such
functions. The docstring is the help text; an int that is returned is the exit code. `--json`,
`--quiet`, `--color`, `--yes`, `--no-input` and `--debug` are added to every command here and
reach it through `output`.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec import __version__
from localspec.cli.call import GLOBAL_FLAGS, Call, CommandFunction, nearest
from localspec.cli.output import Output
from localspec.cli.ui import open_ui, wants_ui
from localspec.errors import Interrupted, LocalspecError, UsageError

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""What a standard output says that nobody can write to any more."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One row of the command table."""

    name: str
    help: str
    """One line, shown by `localspec --help`."""
    section: str

    @property
    def module(self) -> str:
        return f"localspec.cli.{self.name}"


COMMANDS = (
    CommandEntry("run", "Answer a prompt, or chat, with speculative decoding", "Use a model"),
    CommandEntry("serve", "Serve models to editors and agents over HTTP", "Use a model"),
    CommandEntry("bench", "Measure every drafter against plain decoding", "Use a model"),
    CommandEntry("list", "Show the catalogue and what is downloaded", "Find and fetch models"),
    CommandEntry("pull", "Download a model and its draft", "Find and fetch models"),
    CommandEntry("rm", "Delete downloaded files of a model", "Find and fetch models"),
    CommandEntry("pair", "Find a draft for a model", "Find and fetch models"),
    CommandEntry("fit", "Tell whether models go into memory", "Know before you start"),
    CommandEntry("check", "Tell whether target and draft match", "Know before you start"),
    CommandEntry("doctor", "Inspect this machine and llama.cpp", "Know before you start"),
    CommandEntry("cache", "Build and inspect lookup caches", "Know before you start"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with `argv` (default: the process's arguments) and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    _end_as_by_ctrl_c()
    code = run_program(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
    except OSError as error:
        _silence_stdout()
        code = code or _unwritable(error, Output())
    sys.exit(code)


def run_program(arguments: Sequence[str]) -> int:
    """The whole program but for ending the process; returns the exit code."""
    flags = list(arguments)
    if "--" in flags:
        flags = flags[: flags.index("--")]
    debug = "--debug" in flags
    # Until the command's options are read, the flags themselves say how to report an error.
    output = Output(json="--json" in flags, color=False if "--no-color" in flags else None)
    try:
        call = _resolve(list(arguments))
        output = call.output
        return call.run() or 0
    except LocalspecError as error:
        if debug:
            _print_traceback()
            _print_details(error)
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        output.error(Interrupted("interrupted"))
        return Interrupted.exit_code
    except BrokenPipeError:
        # The reader (`| head`) went away: nothing more to say, and nowhere to say it.
        _silence_stdout()
        return 1
    except Exception as error:  # noqa: BLE001 - the last edge: no traceback without --debug
        if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
            _silence_stdout()
            return _unwritable(error, output)
        if debug:
            _print_traceback()
        output.error(
            LocalspecError(
                f"internal error: {type(error).__name__}: {error}",
                hint="this is a bug in localspec; --debug shows where it happened",
            )
        )
        return 1


def _resolve(arguments: list[str]) -> Call:
    """What `arguments` ask for. Raises UsageError where nothing answers to them."""
    leading = _take_global_flags(arguments)
    if wants_ui(arguments):
        return Call(Output(), lambda: open_ui(arguments))
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        return _show(program_help())
    name, rest = arguments[0], arguments[1:]
    if name in ("--version", "-V"):
        return _show(f"localspec {__version__}\n")
    entry = next((entry for entry in COMMANDS if entry.name == name), None)
    if entry is None:
        kind = "option" if name.startswith("-") else "command"
        raise UsageError(
            f"there is no {kind} {name!r}",
            hint=nearest(name, [e.name for e in COMMANDS]) + "commands: localspec --help",
        )
    from localspec.cli.parser import parse

    module = importlib.import_module(entry.module)
    subcommands: dict[str, CommandFunction] | None = getattr(module, "subcommands", None)
    if subcommands is None:
        return parse(f"localspec {name}", module.command, leading + rest)
    leading += _take_global_flags(rest)
    if not rest or rest[0] in ("--help", "-h"):
        return _show(_group_help(name, entry.help, subcommands))
    function = subcommands.get(rest[0])
    if function is None:
        raise UsageError(
            f"there is no command '{name} {rest[0]}'",
            hint=nearest(rest[0], list(subcommands)) + f"commands: localspec {name} --help",
        )
    return parse(f"localspec {name} {rest[0]}", function, leading + rest[1:])


def _take_global_flags(arguments: list[str]) -> list[str]:
    """Remove and return the flags of every command that stand before a command's name."""
    taken = []
    while arguments and arguments[0] in GLOBAL_FLAGS:
        taken.append(arguments.pop(0))
    return taken


def _show(text: str) -> Call:
    output = Output()
    return Call(output, lambda: output.write(text))


def program_help() -> str:
    """The text of `localspec --help`."""
    lines = [
        "localspec: local GGUF models that answer faster, by speculative decoding",
        "",
        "Usage: localspec COMMAND [OPTIONS]",
        "       localspec [--model MODEL] [--screen NAME]    the terminal UI",
        "",
    ]
    for section in dict.fromkeys(entry.section for entry in COMMANDS):
        lines.append(f"{section}:")
        lines += [f"  {e.name:<8} {e.help}" for e in COMMANDS if e.section == section]
        lines.append("")
    lines += [
        "On every command:",
        "  --json         JSON on standard output",
        "  -q, --quiet    No narration and no progress",
        "  --no-color     No colours (NO_COLOR does the same)",
        "  -y, --yes      Answer every question with yes",
        "  --no-input     Never ask",
        "  --debug        Show where an error came from",
        "  -h, --help     Options of the command",
        "",
        "MODEL is a name from `localspec list`, a path to a .gguf file, or owner/repo[:file]",
        "on Hugging Face. A first answer:",
        "",
        '  localspec run smollm2-135m --draft ngram "Why is the sky blue?"',
        "",
    ]
    return "\n".join(lines)


def _group_help(name: str, help: str, subcommands: dict[str, CommandFunction]) -> str:
    lines = [help, "", f"Usage: localspec {name} COMMAND [OPTIONS]", "", "Commands:"]
    width = max(map(len, subcommands))
    for subcommand, function in subcommands.items():
        first = (function.__doc__ or "").strip().splitlines()[0].rstrip(".")
        lines.append(f"  {subcommand:<{width}}  {first}")
    lines += ["", f"Options of one of them: localspec {name} COMMAND --help", ""]
    return "\n".join(lines)


def _print_traceback() -> None:
    import traceback

    traceback.print_exc(file=sys.stderr)


def _print_details(error: LocalspecError) -> None:
    """What another process reported with the error: its trace, the last lines of its log."""
    for name in ("trace", "log"):
        found = error.fields.get(name, "")
        lines = found if isinstance(found, list | tuple) else str(found).splitlines()
        for line in lines:
            sys.stderr.write(f"{name}: {line}\n")


def _make_streams_safe() -> None:
    """A terminal whose encoding lacks a character gets a `?`, not a UnicodeEncodeError; a stream
    that was closed before we started (`>&-`, as schedulers do) is an empty or a silent one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about the closed pipe when it flushes at exit."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def _end_as_by_ctrl_c() -> None:
    """A closed terminal or a polite kill ends the program as Ctrl-C does: what was learned is
    saved, the engine is closed."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _unwritable(error: OSError, output: Output) -> int:
    output.error(
        LocalspecError(
            f"cannot write the output: {error.strerror}", hint="free some space, or write elsewhere"
        )
    )
    return LocalspecError.exit_code
