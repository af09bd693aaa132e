"""Typer as a parser: a command's arguments become a call, and its usage errors become ours.

A parameter whose type is a dataclass is a group of options: one for each of its fields.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from localspec.cli.call import Call, CommandFunction, nearest
from localspec.cli.output import Output
from localspec.errors import UsageError

_EVERYWHERE = "On every command"

_GLOBAL_OPTIONS: dict[str, Any] = {
    "json_": Annotated[
        bool,
        typer.Option("--json", help="JSON on standard output.", rich_help_panel=_EVERYWHERE),
    ],
    "quiet": Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="No narration and no progress.", rich_help_panel=_EVERYWHERE
        ),
    ],
    "color": Annotated[
        bool | None,
        typer.Option(
            "--color/--no-color",
            help="Colours; default: on a terminal, unless NO_COLOR is set.",
            rich_help_panel=_EVERYWHERE,
        ),
    ],
    "yes": Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Answer every question with yes.", rich_help_panel=_EVERYWHERE
        ),
    ],
    "no_input": Annotated[
        bool, typer.Option("--no-input", help="Never ask.", rich_help_panel=_EVERYWHERE)
    ],
    "debug": Annotated[
        bool,
        typer.Option("--debug", help="Show where an error came from.", rich_help_panel=_EVERYWHERE),
    ],
}


class SectionedCommand(TyperCommand):
    """Help in plain text, options under the heading that their `rich_help_panel` names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] MODEL [PROMPT]...`, as manuals have it."""
        parameters: list[Any] = list(self.get_params(ctx))
        pieces = ["[OPTIONS]"]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                name = _left_column(parameter)
                several = "..." if parameter.nargs != 1 else ""
                pieces.append(f"{name if parameter.required else f'[{name}]'}{several}")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        parameters: list[Any] = list(self.get_params(ctx))
        for parameter in parameters:
            is_option = parameter.param_type_name == "option"
            if is_option and parameter.is_flag:
                parameter.show_default = False
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            heading = getattr(parameter, "rich_help_panel", None)
            heading = heading or ("Options" if is_option else "Arguments")
            if parameter.name == "help":
                heading, record = _EVERYWHERE, (record[0], "This text.")
            name = record[0] if is_option and parameter.is_flag else _left_column(parameter)
            sections.setdefault(heading, []).append((name, _right_column(record[1])))
        # What belongs to every command comes last.
        for heading in sorted(sections, key=lambda name: name == _EVERYWHERE):
            if sections[heading]:
                with formatter.section(heading):
                    formatter.write_dl(sections[heading], col_max=26)


def _left_column(parameter: Any) -> str:
    """`--temp NUMBER`, or the name of an argument."""
    metavar = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        return str(metavar).removesuffix("...").strip("[]")
    return f"{', '.join(parameter.opts)} {metavar}"


def _right_column(text: str) -> str:
    """The help of a parameter, ranges in words; that it is required, the usage line shows."""
    text = re.sub(r"\s*\[required\]$|; required(?=\]$)", "", text)
    text = re.sub(r"([-\d.]+)<=x<=([-\d.]+)", r"\1 to \2", text)
    return re.sub(r"x>=([-\d.]+)", r"at least \1", text)


def parse(program: str, function: CommandFunction, arguments: Sequence[str]) -> Call:
    """The call of `function` that `arguments` ask for; one that does nothing after `--help`,
    which Typer has shown then.

    program: how the command is called, for the usage line (`localspec fit`).
    Raises UsageError for what Typer does not accept.
    """
    calls: list[Call] = []

    def record(**values: Any) -> None:
        output = Output(
            json=values.pop("json_"),
            quiet=values.pop("quiet"),
            color=values.pop("color"),
            assume_yes=values.pop("yes"),
            no_input=values.pop("no_input"),
        )
        values.pop("debug")
        for name, group in groups.items():
            fields = dataclasses.fields(group)
            values[name] = group(**{field.name: values.pop(field.name) for field in fields})
        calls.append(Call(output, functools.partial(function, output, **values)))

    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if dataclasses.is_dataclass(hints.get(name)):
            groups[name] = hints[name]
            parameters += _fields_as_parameters(hints[name])
        elif name != "output":
            parameters.append(
                parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            )
    parameters += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=annotation,
            default=None if name == "color" else False,
        )
        for name, annotation in _GLOBAL_OPTIONS.items()
    ]
    # Typer reads the signature; this one is `function`'s with the options of every command.
    record.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    record.__annotations__ = {p.name: p.annotation for p in parameters}

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(
        program.rsplit(" ", 1)[-1],
        cls=SectionedCommand,
        help=inspect.getdoc(function),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )(record)
    command = typer.main.get_command(app)
    try:
        command.main(args=list(arguments), prog_name=program, standalone_mode=False)
    except typer.TyperException as error:
        raise _as_usage_error(error, program, command, arguments) from error
    return calls[0] if calls else Call(Output(), lambda: None)


def _fields_as_parameters(group: Any) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=field.default,
        )
        for field in dataclasses.fields(group)
    ]


def _as_usage_error(
    error: typer.TyperException, program: str, command: Any, arguments: Sequence[str]
) -> UsageError:
    message = error.format_message().split("(Possible options")[0].strip().rstrip(".")
    hint = ""
    wrong = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if parameter is None and wrong and "No such option" in message:
        message = f"there is no option {wrong}"
        hint = nearest(wrong, [name for known in command.params for name in known.opts])
    elif parameter is not None and error.message:
        name = parameter.metavar or parameter.name
        if parameter.param_type_name == "option":
            name = " ".join(_as_written(parameter.opts, arguments))
        # The first half says what is expected; the second repeats it in the validator's words.
        expected = error.message.split(", unable to")[0].replace("Input should be", "it must be")
        message = f"{name}: {expected[:1].lower()}{expected[1:]}"
    else:
        message = message[:1].lower() + message[1:]
    return UsageError(message, hint=f"{hint}options: {program} --help")


def _as_written(names: Sequence[str], arguments: Sequence[str]) -> Sequence[str]:
    """An option with its value as they stand in `arguments`; the option alone if it is absent."""
    for index, argument in enumerate(arguments):
        if argument in names:
            return arguments[index : index + 2]
        if argument.split("=", 1)[0] in names:
            return [argument]
    return names[-1:]
