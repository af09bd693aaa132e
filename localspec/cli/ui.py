"""Bare `localspec`: the terminal UI."""

from __future__ import annotations

import sys

from localspec.errors import UsageError


def wants_ui(arguments: list[str]) -> bool:
    """Whether these arguments, which name no command, ask for the UI.

    Without any it takes a terminal: in a script a bare `localspec` shows its help.
    """
    if not arguments:
        return _has_terminal()
    return arguments[0].split("=")[0] in ("--model", "--screen")


def open_ui(arguments: list[str]) -> int:
    """Run the UI until the user quits. Raises UsageError for options it does not know."""
    model, screen = _read(arguments)
    if not _has_terminal():
        raise UsageError(
            "the terminal UI needs a terminal", hint="localspec run MODEL answers without one"
        )
    from localspec.paths import user_paths
    from localspec.tui.app import LocalspecApp
    from localspec.tui.backend.live import LiveBackend
    from localspec.tui.collecting import rare_collections

    app = LocalspecApp(LiveBackend(user_paths()), model=model, screen=screen)
    with rare_collections():
        app.run()
    return app.return_code or 0


def _read(arguments: list[str]) -> tuple[str, str]:
    from localspec.tui.widgets.topbar import SCREENS

    values = {"--model": "", "--screen": ""}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in values:
            raise UsageError(f"there is no option {name!r}", hint="--model ID, --screen NAME")
        if not equals:
            if not rest:
                raise UsageError(f"{name} needs a value", hint="--model ID, --screen NAME")
            value = rest.pop(0)
        values[name] = value
    names = [name for name, _, _ in SCREENS]
    if values["--screen"] and values["--screen"] not in names:
        raise UsageError(
            f"there is no screen {values['--screen']!r}", hint=f"one of {', '.join(names)}"
        )
    if values["--model"] and not values["--screen"]:
        values["--screen"] = "chat"
    return values["--model"], values["--screen"]


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
