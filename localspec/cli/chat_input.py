"""The input line of the terminal chat: history, several lines, completion of /commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output as TerminalOutput


def terminal_reader(
    history: Path,
    *,
    input: Input | None = None,
    output: TerminalOutput | None = None,
) -> Callable[[], Awaitable[str]]:
    """A function that reads what the user types next.

    history: file of former inputs, made when it is missing. input, output: another terminal.
    The function raises EOFError for Ctrl-D and KeyboardInterrupt for Ctrl-C.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings

    from localspec.cli.chat_commands import COMMANDS

    class CommandCompleter(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Any:
            text = document.text_before_cursor
            if text.startswith("/") and " " not in text:
                for name, command in COMMANDS.items():
                    if name.startswith(text):
                        yield Completion(name, -len(text), display_meta=command.help)

    keys = KeyBindings()

    @keys.add("enter")
    def submit(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    kept: History
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch()
        kept = FileHistory(str(history))
    except OSError:
        # A disk that cannot be written to is no reason not to chat.
        kept = InMemoryHistory()
    session: PromptSession[str] = PromptSession(
        "> ",
        history=kept,
        key_bindings=keys,
        multiline=True,
        prompt_continuation="  ",
        completer=CommandCompleter(),
        complete_while_typing=True,
        reserve_space_for_menu=4,
        input=input,
        output=output,
    )
    return session.prompt_async
