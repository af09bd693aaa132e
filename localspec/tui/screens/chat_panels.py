"""The panels of the chat screen: conversations, settings, and the file that goes with a message."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.widgets import Input

from localspec.errors import LocalspecError
from localspec.tui.screens.chat_loading import ChatLoading
from localspec.tui.widgets.chat_list import ChatList
from localspec.tui.widgets.settings_panel import SettingsPanel


class ChatPanels(ChatLoading):
    """At most one panel is open beside the transcript."""

    def action_settings(self) -> None:
        self._toggle(self._settings_panel, show=not self._settings_panel.display)

    @on(SettingsPanel.Changed)
    def _settings_changed(self, event: SettingsPanel.Changed) -> None:
        self.session.settings = event.settings

    def action_chats(self) -> None:
        show = not self._chat_list.display
        self._toggle(self._chat_list, show=show)
        if show:
            self._list_chats("")

    @on(ChatList.Search)
    def _search_chats(self, event: ChatList.Search) -> None:
        self._list_chats(event.words)

    @work(group="chats", exclusive=True)
    async def _list_chats(self, words: str) -> None:
        entries = await asyncio.to_thread(self.backend.chats.entries, words)
        self._chat_list.show(entries)

    @on(ChatList.Chosen)
    def _chat_chosen(self, event: ChatList.Chosen) -> None:
        if self._current is not None:
            return
        try:
            self.session.resume(event.chat_id)
        except LocalspecError as error:
            self._activity.say(error.message, error.hint, level="bad")
            return
        self._settings_panel.show(self.session.settings)
        self._panel.meter = self.session.meter
        self._toggle(self._chat_list, show=False)
        self._show_conversation()
        if not self._model and self.session.chat.model:
            self.open_model(self.session.chat.model)

    @on(ChatList.Deleted)
    def _chat_deleted(self, event: ChatList.Deleted) -> None:
        try:
            self.backend.chats.delete(event.chat_id)
        except LocalspecError as error:
            self._activity.say(error.message, error.hint, level="bad")
        self._list_chats(self.query_one("#chat-search", Input).value)

    @on(ChatList.Closed)
    def _chats_closed(self) -> None:
        self._toggle(self._chat_list, show=False)

    def _toggle(self, panel: ChatList | SettingsPanel, *, show: bool) -> None:
        panel.display = show
        either = self._chat_list.display or self._settings_panel.display
        self.set_class(either, "with-panel")
        if show:
            panel.query("Input, TextArea").first().focus()
        else:
            self._prompt.focus()

    def action_attach(self) -> None:
        field = self._attach_field
        field.display = True
        field.value = ""
        field.focus()

    @on(Input.Submitted, "#attach")
    def _attached(self, event: Input.Submitted) -> None:
        try:
            words = self.session.attach(event.value)
        except LocalspecError as error:
            self._activity.say(error.message, error.hint, level="bad")
            return
        self._activity.say(f"{words} goes with your next message")
        self._close_attach()

    def _close_attach(self) -> None:
        self._attach_field.display = False
        self._prompt.focus()
