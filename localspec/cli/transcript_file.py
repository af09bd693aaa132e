"""Chats of the terminal as files: the UI's conversations, or Markdown for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from localspec.chats.conversation import Conversation, Turn
from localspec.engine.settings import ChatMessage
from localspec.errors import UsageError
from localspec.whole_file import write_whole


def save_chat(path: Path, model: str, messages: Sequence[ChatMessage]) -> None:
    """Write the chat; as Markdown where the name ends in .md, else as the UI's JSON.

    Raises UsageError when the disk refuses; the folder must exist.
    """
    from localspec.chats.export import as_markdown
    from localspec.chats.store import as_json

    now = datetime.now().astimezone().isoformat(timespec="seconds")
    chat = Conversation(
        path.stem,
        model=model,
        system="\n\n".join(m.content for m in messages if m.role == "system"),
        created=now,
        saved=now,
        turns=[Turn(m.role, m.content, m.thinking) for m in messages if m.role != "system"],
    )
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=f"a file in it: /save {path / 'chat.md'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {path.absolute().parent}", hint="make it, or /save elsewhere"
        )
    try:
        write_whole(path, as_markdown(chat) if path.suffix == ".md" else as_json(chat))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} cannot be written: {reason}", hint="/save FILE names another place"
        ) from error


def load_chat(path: Path) -> list[ChatMessage] | None:
    """The messages of a chat saved as JSON; None when the file is something else."""
    from localspec.chats.store import read_chat

    chat = read_chat(path)
    if chat is None:
        return None
    system = [ChatMessage("system", chat.system)] if chat.system else []
    return [*system, *(ChatMessage(t.role, t.content, t.thinking) for t in chat.turns)]


def default_path(folder: Path) -> Path:
    """Where a chat goes when no name is given: its date and time, in `folder`, which is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be made: {error.strerror}", hint="/save FILE names another place"
        ) from error
    return folder / f"{datetime.now():%Y-%m-%d %H.%M.%S}.json"
