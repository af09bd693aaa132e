"""`localspec run MODEL`: reading what the user types, answering, until they leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from localspec.cli.chat import Chat
from localspec.cli.chat_commands import COMMANDS, run_chat_command
from localspec.cli.output import Output
from localspec.cli.run_engine import start_engine
from localspec.engine.settings import EngineSettings, GenerateRequest
from localspec.errors import LocalspecError
from localspec.paths import Paths

ReadLine = Callable[[], Awaitable[str]]
"""What the user types next. Raises EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""


async def converse(chat: Chat, read_line: ReadLine) -> None:
    """Read, answer, repeat, until /quit or Ctrl-D."""
    while True:
        try:
            text = (await read_line()).strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            chat.output.note("Ctrl-D or /quit ends the chat")
            continue
        if not text:
            continue
        try:
            if text.startswith("/") and text.split()[0] in COMMANDS:
                if not await run_chat_command(chat, text):
                    return
            elif text.startswith("/") and text[1:].split(" ")[0].isalpha():
                chat.output.warn(f"there is no {text.split()[0]}", "/help shows the commands")
            else:
                await chat.answer(text)
        except LocalspecError as error:
            # One answer failed; the conversation goes on.
            chat.output.error(error)


async def run_chat(
    settings: EngineSettings,
    request: GenerateRequest,
    output: Output,
    paths: Paths,
    *,
    system: str | None,
    stats: bool,
    color_drafts: bool,
) -> int:
    """Load the models and chat until the user leaves; returns the exit code."""
    from localspec.cli.chat_input import terminal_reader

    engine = await start_engine(settings, output)
    try:
        output.note(f"{settings.model_id} · --draft {settings.method} · /help shows the commands")
        chat = Chat(
            engine,
            request,
            output,
            model=settings.model_id,
            method=settings.method,
            has_draft=settings.draft is not None,
            chats_folder=paths.chats,
            system=system,
            stats=stats,
            color_drafts=color_drafts,
        )
        await converse(chat, terminal_reader(paths.data / "history.txt"))
    finally:
        await engine.close()
    return 0
