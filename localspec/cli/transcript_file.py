"""Saved chats: JSON that can be read again, or Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from localspec.engine.settings import ChatMessage
from localspec.errors import UsageError


def save_chat(path: Path, model: str, messages: Sequence[ChatMessage]) -> None:
    """Write the chat; as Markdown where the name ends in .md, else as JSON.

    Raises UsageError when the disk refuses.
    """
    text = _as_markdown(model, messages) if path.suffix == ".md" else _as_json(model, messages)
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="/save FILE names another place"
        ) from error


def load_chat(path: Path) -> list[ChatMessage] | None:
    """The messages of a chat saved as JSON; None when the file is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    messages = content.get("messages") if isinstance(content, dict) else None
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        return None
    return [ChatMessage(m["role"], m["content"], m.get("thinking", "")) for m in messages]


def default_path(folder: Path) -> Path:
    """Where a chat goes when no name is given: its date and time."""
    return folder / f"{datetime.now():%Y-%m-%d %H.%M.%S}.json"


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(
        isinstance(message.get(key, ""), str) and (key == "thinking" or key in message)
        for key in ("role", "content", "thinking")
    )


def _as_json(model: str, messages: Sequence[ChatMessage]) -> str:
    document = {
        "model": model,
        "saved": datetime.now().astimezone().isoformat(timespec="seconds"),
        "messages": [
            {
                "role": m.role,
                "content": m.content,
                **({"thinking": m.thinking} if m.thinking else {}),
            }
            for m in messages
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_markdown(model: str, messages: Sequence[ChatMessage]) -> str:
    turns = (f"## {m.role.capitalize()}\n\n{m.content.strip()}\n" for m in messages)
    return "\n".join([f"# Chat with {model}\n", *turns])
