"""A conversation as it is kept: turns, the model that answered, and how fast each answer was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Turn:
    """One message."""

    role: str
    """`user` or `assistant`."""
    content: str
    thinking: str = ""
    drafted: tuple[tuple[int, int], ...] = ()
    """Ranges of `content`, in characters, that came from a drafter."""
    figures: dict[str, Any] = field(default_factory=dict)
    """Of an answer: `method`, `tokens`, `seconds`, `rate` (tokens per second), `acceptance`,
    `tokens_per_round`, `finish`, `thinking_seconds`; absent where unknown."""

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.thinking:
            found["thinking"] = self.thinking
        if self.drafted:
            found["drafted"] = [list(pair) for pair in self.drafted]
        if self.figures:
            found["figures"] = self.figures
        return found


@dataclass(slots=True)
class Conversation:
    """A conversation that grows."""

    id: str
    """Name of its file without the ending."""
    model: str = ""
    """The pair that answered last, as the user named it."""
    system: str = ""
    title: str = ""
    """Given by the user; empty takes the first question."""
    created: str = ""
    """ISO 8601, with the offset."""
    saved: str = ""
    turns: list[Turn] = field(default_factory=list)

    @property
    def shown_title(self) -> str:
        """Never empty."""
        if self.title:
            return self.title
        first = next((turn.content for turn in self.turns if turn.role == "user"), "")
        line = " ".join(first.split())
        if len(line) > _TITLE_LENGTH:
            line = line[: _TITLE_LENGTH - 1].rstrip() + "…"
        return line or "New chat"

    def as_dict(self) -> dict[str, Any]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {
            "model": self.model,
            "title": self.title,
            "created": self.created,
            "saved": self.saved,
            "messages": [*system, *(turn.as_dict() for turn in self.turns)],
        }


def conversation_from(data: Any, chat_id: str) -> Conversation | None:
    """The conversation that `as_dict` wrote; None for anything else.

    Files of `localspec run`'s `/save` have the same layout with fewer keys.
    """
    messages = data.get("messages") if isinstance(data, dict) else None
    if not isinstance(messages, list) or not all(_is_message(item) for item in messages):
        return None
    system = "\n\n".join(item["content"] for item in messages if item["role"] == "system")
    turns = [_turn(item) for item in messages if item["role"] in ("user", "assistant")]
    texts = {key: data.get(key) for key in ("model", "title", "created", "saved")}
    clean = {key: value if isinstance(value, str) else "" for key, value in texts.items()}
    return Conversation(chat_id, system=system, turns=turns, **clean)


def _turn(item: dict[str, Any]) -> Turn:
    drafted = item.get("drafted", [])
    length = len(item["content"])
    ranges = tuple(
        (pair[0], pair[1])
        for pair in drafted
        if isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(end, int) for end in pair)
        and 0 <= pair[0] < pair[1] <= length
    )
    figures = item.get("figures", {})
    thinking = item.get("thinking", "")
    return Turn(
        item["role"],
        item["content"],
        thinking if isinstance(thinking, str) else "",
        ranges,
        figures if isinstance(figures, dict) else {},
    )


def _is_message(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("role"), str)
        and isinstance(item.get("content"), str)
        and isinstance(item.get("drafted", []), list)
    )
