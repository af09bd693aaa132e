"""One conversation of the terminal chat: its messages, its settings, its answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.cli.chat_totals import ChatTotals
from localspec.cli.output import Output
from localspec.cli.run_answer import stats_line
from localspec.cli.run_engine import print_answer
from localspec.engine.settings import ChatMessage, GenerateRequest

if TYPE_CHECKING:
    from localspec.engine.client import EngineClient


class Chat:
    """What the commands of a chat may look at and change, and `answer`."""

    def __init__(
        self,
        engine: EngineClient,
        request: GenerateRequest,
        output: Output,
        *,
        model: str,
        method: str,
        has_draft: bool = False,
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
        self.has_draft = has_draft
        self.chats_folder = chats_folder
        self.system = system or ""
        self.stats = stats
        self.color_drafts = color_drafts
        self.messages: list[ChatMessage] = []
        self.totals = ChatTotals()
        self._request = request

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
