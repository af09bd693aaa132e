"""`localspec run MODEL`: a chat in the terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.cli.chat_commands import COMMANDS, run_chat_command
from localspec.cli.chat_totals import ChatTotals
from localspec.cli.output import Output
from localspec.cli.run_answer import stats_line
from localspec.cli.run_engine import print_answer, start_engine
from localspec.engine.settings import ChatMessage, EngineSettings, GenerateRequest
from localspec.errors import LocalspecError
from localspec.paths import Paths

if TYPE_CHECKING:
    from localspec.engine.client import EngineClient

ReadLine = Callable[[], Awaitable[str]]
"""What the user types next. Raises EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""


class Chat:
    """One conversation: its messages, its settings, and the loop that reads and answers."""

    def __init__(
        self,
        engine: EngineClient,
        request: GenerateRequest,
        output: Output,
        read_line: ReadLine,
        *,
        model: str,
        method: str,
        chats_folder: Path,
        system: str | None = None,
        stats: bool = True,
        color_drafts: bool = False,
    ) -> None:
        """request: sampling, stop strings and limits of every answer. method: the drafter now."""
        self.engine = engine
        self.output = output
        self.model = model
        self.method = method
        self.chats_folder = chats_folder
        self.system = system or ""
        self.stats = stats
        self.color_drafts = color_drafts
        self.messages: list[ChatMessage] = []
        self.totals = ChatTotals()
        self._request = request
        self._read_line = read_line

    async def run(self) -> None:
        """Read, answer, repeat, until /quit or Ctrl-D."""
        while True:
            try:
                text = (await self._read_line()).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                self.output.note("Ctrl-D or /quit ends the chat")
                continue
            if not text:
                continue
            try:
                if text.startswith("/") and text.split()[0] in COMMANDS:
                    if not await run_chat_command(self, text):
                        return
                elif text.startswith("/") and text[1:].split(" ")[0].isalpha():
                    self.output.warn(f"there is no {text.split()[0]}", "/help shows the commands")
                else:
                    await self.answer(text)
            except LocalspecError as error:
                # One answer failed; the conversation goes on.
                self.output.error(error)

    async def answer(self, text: str) -> None:
        """Ask, stream the answer, and keep both if there was one, also an interrupted one.

        Raises what the engine raises; the conversation is then as it was before.
        """
        question = ChatMessage("user", text)
        system = [ChatMessage("system", self.system)] if self.system else []
        request = replace(
            self._request, messages=(*system, *self.messages, question), method=self.method
        )
        answer = await print_answer(
            self.engine, request, self.output, color_drafts=self.color_drafts
        )
        self.messages += [question, ChatMessage("assistant", answer.text, answer.thinking)]
        self.totals.add(answer)
        if self.stats:
            self.output.note(self.output.style(stats_line(answer), "dim", error=True))


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
            terminal_reader(paths.data / "history.txt"),
            model=settings.model_id,
            method=settings.method,
            chats_folder=paths.chats,
            system=system,
            stats=stats,
            color_drafts=color_drafts,
        )
        await chat.run()
    finally:
        await engine.close()
    return 0
