"""The folder of conversations: one JSON file each, written whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from localspec import whole_file
from localspec.chats.conversation import Conversation, conversation_from
from localspec.errors import LocalspecError, UsageError


@dataclass(frozen=True, slots=True)
class ChatEntry:
    """One line of the list of conversations."""

    id: str
    title: str
    model: str
    saved: str
    """ISO 8601; empty where the file does not say."""
    turns: int
    excerpt: str = ""
    """Where a search found its words; empty without a search."""


class ChatStore:
    """Conversations under `folder`, which comes into being with the first of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unsaved: set[str] = set()
        """Ids given out by `new` that no file stands for yet."""

    def new(self, model: str = "", system: str = "") -> Conversation:
        """An empty conversation with an id of its own; nothing is written yet."""
        now = datetime.now().astimezone()
        chat_id = next(
            name
            for name in _numbered(f"{now:%Y-%m-%d %H.%M.%S}")
            if name not in self._unsaved and not self._path(name).exists()
        )
        self._unsaved.add(chat_id)
        created = now.isoformat(timespec="seconds")
        return Conversation(chat_id, model=model, system=system, created=created)

    def save(self, chat: Conversation) -> Path:
        """Write the conversation. Raises LocalspecError when the disk refuses.

        A new one gets another id when a second program has taken its own in the meantime.
        """
        if chat.id in self._unsaved:
            asked = chat.id
            self._claim(chat)
            self._unsaved.discard(asked)
        chat.saved = datetime.now().astimezone().isoformat(timespec="seconds")
        path = self._path(chat.id)
        write_whole(path, as_json(chat))
        return path

    def load(self, chat_id: str) -> Conversation:
        """Raises UsageError when there is no such conversation or the file is damaged."""
        found = read_chat(self._path(chat_id))
        if found is None:
            raise UsageError(
                f"the chat {chat_id!r} cannot be read",
                hint=f"its file is {self._path(chat_id)}",
                chat=chat_id,
            )
        return found

    def delete(self, chat_id: str) -> None:
        """Remove the file; one that is gone already is no error."""
        with _disk_errors(self._path(chat_id)):
            self._path(chat_id).unlink(missing_ok=True)

    def entries(self, search: str = "") -> list[ChatEntry]:
        """The conversations that hold every word of `search`, newest first.

        Damaged and foreign files are left out.
        """
        words = search.lower().split()
        found = []
        for path in self._files():
            chat = read_chat(path)
            if chat is None:
                continue
            excerpt = _excerpt(chat, words)
            if excerpt is not None:
                entry = ChatEntry(
                    chat.id, chat.shown_title, chat.model, chat.saved, len(chat.turns), excerpt
                )
                found.append(entry)
        return found

    def _claim(self, chat: Conversation) -> None:
        """Take the first name from the chat's own on that no file has."""
        for name in _numbered(chat.id):
            path = self._path(name)
            with _disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    path.open("x").close()
                except FileExistsError:
                    continue
            chat.id = name
            return

    def _files(self) -> Iterator[Path]:
        """Newest first."""
        try:
            paths = [path for path in self.folder.iterdir() if path.suffix == ".json"]
        except OSError:
            return
        dated = []
        for path in paths:
            with contextlib.suppress(OSError):
                dated.append((path.stat().st_mtime_ns, path))
        yield from (path for _, path in sorted(dated, reverse=True))

    def _path(self, chat_id: str) -> Path:
        if not chat_id or Path(chat_id).name != chat_id or "\0" in chat_id:
            raise UsageError(f"{chat_id!r} is no name of a chat")
        return self.folder / f"{chat_id}.json"


def _numbered(base: str) -> Iterator[str]:
    """`base`, `base 2`, `base 3` and so on."""
    yield base
    for count in itertools.count(2):
        yield f"{base} {count}"


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all. Raises LocalspecError when the disk refuses."""
    with _disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write_whole(path, text, private=True)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalspecError(
            f"{path} cannot be written: {error.strerror}",
            hint="free some space, or set LOCALSPEC_HOME to another folder",
            path=str(path),
        ) from error


def as_json(chat: Conversation) -> str:
    """The text of a conversation's file."""
    return json.dumps(chat.as_dict(), indent=1, ensure_ascii=False) + "\n"


def read_chat(path: Path) -> Conversation | None:
    """The conversation in a file, its id the file's name; None when the file is something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return conversation_from(data, path.stem)


def _excerpt(chat: Conversation, words: list[str]) -> str | None:
    """Text around the first word; empty without words, None where one is missing."""
    if not words:
        return ""
    whole = "\n".join([chat.shown_title, *(turn.content for turn in chat.turns)])
    lowered = whole.lower()
    if not all(word in lowered for word in words):
        return None
    at = lowered.find(words[0])
    return " ".join(whole[max(0, at - 24) : at + 56].split())
