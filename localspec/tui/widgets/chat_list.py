"""Saved conversations: search as one types, Enter goes on with one."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from localspec.chats.store import ChatEntry


class ChatList(Vertical):
    """Asks for entries with `Search`; the screen answers with `show`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("delete", "delete", "Delete", show=False),
        Binding("escape", "close", "Close", show=False),
    ]

    class Search(Message):
        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Chosen(Message):
        def __init__(self, chat_id: str) -> None:
            super().__init__()
            self.chat_id = chat_id

    class Deleted(Message):
        def __init__(self, chat_id: str) -> None:
            super().__init__()
            self.chat_id = chat_id

    class Closed(Message):
        pass

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "Conversations"
        self.border_subtitle = "⏎ open  del delete  esc close"
        self._asked = ""
        """Id whose deletion waits for a second press of the key."""

    def compose(self) -> ComposeResult:
        yield Input(placeholder="search", id="chat-search", compact=True)
        yield OptionList(id="chat-options", compact=True)

    def show(self, entries: list[ChatEntry]) -> None:
        """Replace the list."""
        self._asked = ""
        options = self.query_one(OptionList)
        place = options.highlighted
        options.clear_options()
        if not entries:
            options.add_option(Option("no conversation yet", disabled=True))
            return
        options.add_options([Option(_line(entry), id=entry.id) for entry in entries])
        options.highlighted = min(place or 0, len(entries) - 1)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Search(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._choose()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id:
            self.post_message(self.Chosen(event.option_id))

    def on_key(self, event: events.Key) -> None:
        options = self.query_one(OptionList)
        if event.key in ("up", "down") and self.query_one(Input).has_focus:
            event.stop()
            if event.key == "down":
                options.action_cursor_down()
            else:
                options.action_cursor_up()

    def action_delete(self) -> None:
        chat_id = self._highlighted()
        if chat_id is None:
            return
        if self._asked != chat_id:
            self._asked = chat_id
            self.border_subtitle = "del again deletes for good"
            return
        self.border_subtitle = "⏎ open  del delete  esc close"
        self.post_message(self.Deleted(chat_id))

    def action_close(self) -> None:
        self.post_message(self.Closed())

    def _choose(self) -> None:
        chat_id = self._highlighted()
        if chat_id is not None:
            self.post_message(self.Chosen(chat_id))

    def _highlighted(self) -> str | None:
        options = self.query_one(OptionList)
        if options.highlighted is None or not options.option_count:
            return None
        return options.get_option_at_index(options.highlighted).id


def _line(entry: ChatEntry) -> Text:
    when = entry.saved[:16].replace("T", " ")
    text = Text(entry.title, overflow="ellipsis", no_wrap=True)
    text.append(f"\n{when}  {entry.model}  {entry.turns} messages", "dim")
    if entry.excerpt:
        text.append(f"\n…{entry.excerpt}…", "italic dim")
    return text
