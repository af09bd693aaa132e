"""A chat without its screen: the conversation, who drafts, and how answers are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from localspec.chats.conversation import Conversation, Turn
from localspec.chats.export import as_markdown
from localspec.chats.store import ChatStore, write_whole
from localspec.errors import UsageError
from localspec.events import Answer
from localspec.tui.backend.views import METHODS, ChatSettings
from localspec.tui.figures import Meter
from localspec.units import format_file_size

_LARGEST_FILE = 512 * 1024
"""Bytes of a text file that can be attached: far more than any context holds."""


class ChatSession:
    """Turns come and go here; screens only show them."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self.chat: Conversation = store.new()
        self.settings = ChatSettings()
        self.method = "auto"
        self.meter = Meter()
        self.attachments: list[tuple[str, str]] = []
        """Name and text of files that go with the next message."""

    @property
    def turns(self) -> list[Turn]:
        return self.chat.turns

    def start_new(self) -> None:
        """An empty conversation; the settings stay."""
        self.chat = self._store.new(self.chat.model, self.settings.system)
        self.meter = Meter()
        self.attachments.clear()

    def resume(self, chat_id: str) -> None:
        """Go on with a conversation from the store. Raises UsageError."""
        self.chat = self._store.load(chat_id)
        self.settings = replace(self.settings, system=self.chat.system)
        self.meter = Meter()
        self.attachments.clear()

    def ask(self, text: str) -> Turn:
        """Add the user's message, attached files before it."""
        files = "".join(
            f"{name}:\n```\n{body.rstrip()}\n```\n\n" for name, body in self.attachments
        )
        self.attachments.clear()
        turn = Turn("user", files + text)
        self.turns.append(turn)
        return turn

    def take_back(self) -> str | None:
        """Remove the last question with its answer; its text, or None when there is none."""
        index = self._last("user")
        if index is None:
            return None
        text = self.turns[index].content
        del self.turns[index:]
        return text

    def drop_answer(self) -> bool:
        """Remove the last answer, so that the question can be answered again."""
        if self.turns and self.turns[-1].role == "assistant":
            self.turns.pop()
        return bool(self.turns) and self.turns[-1].role == "user"

    def last_answer(self) -> str | None:
        index = self._last("assistant")
        return None if index is None else self.turns[index].content

    def next_method(self, *, has_draft: bool) -> str:
        """Switch to the next drafter; those that need a draft model are passed over without one."""
        usable = [name for name in METHODS if has_draft or name != "model"]
        place = usable.index(self.method) if self.method in usable else -1
        self.method = usable[(place + 1) % len(usable)]
        return self.method

    def answered(
        self,
        answer: Answer | None,
        text: str,
        thinking: str,
        drafted: tuple[tuple[int, int], ...],
        thinking_seconds: float | None,
    ) -> Turn | None:
        """Keep an answer, whole or cut short; None when nothing was said.

        answer: None when the engine failed in the middle of it.
        """
        if not text.strip() and not thinking.strip():
            return None
        figures: dict[str, object] = {"method": self.method}
        if answer is not None:
            spec, timings = answer.speculation, answer.timings
            figures |= {
                "tokens": answer.completion_tokens,
                "seconds": round(timings.decode_s, 3),
                "rate": round(timings.decode_tokens_per_second, 2),
                "drafted": spec.drafted,
                "acceptance": round(spec.acceptance_rate, 4),
                "tokens_per_round": round(spec.tokens_per_round, 3),
                "finish": answer.finish_reason,
            }
        else:
            figures["finish"] = "failed"
        if thinking_seconds is not None:
            figures["thinking_seconds"] = round(thinking_seconds, 1)
        turn = Turn("assistant", text, thinking, drafted, figures)
        self.turns.append(turn)
        return turn

    def save(self) -> None:
        """Keep the conversation, unless it is empty. Raises LocalspecError."""
        if self.turns:
            self.chat.system = self.settings.system
            self._store.save(self.chat)

    def export(self, folder: Path) -> Path:
        """Write the conversation as Markdown; where it went. Raises LocalspecError."""
        if not self.turns:
            raise UsageError("there is nothing to export yet", hint="ask something first")
        path = folder / f"{self.chat.id}.md"
        write_whole(path, as_markdown(self.chat))
        return path

    def attach(self, name: str) -> str:
        """Read a text file for the next message; a line that says what it is. Raises UsageError."""
        path = Path(name.strip().strip("'\"")).expanduser()
        try:
            size = path.stat().st_size
            if size > _LARGEST_FILE:
                raise UsageError(
                    f"{path.name} has {format_file_size(size)}",
                    hint=f"at most {format_file_size(_LARGEST_FILE)} can be attached",
                )
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path.name} is not a text file", hint="UTF-8 text only") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        self.attachments.append((path.name, text))
        lines = text.count("\n") + 1
        return f"{path.name} ({lines:,} lines)"

    def _last(self, role: str) -> int | None:
        found = [index for index, turn in enumerate(self.turns) if turn.role == role]
        return found[-1] if found else None
