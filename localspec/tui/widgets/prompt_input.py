"""The line one writes in: it grows, remembers what was sent, and sends with Enter."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

_NEW_LINE_KEYS = ("alt+enter", "shift+enter", "ctrl+j")


class PromptInput(TextArea):
    """Several lines of plain text. Up and down leaf through the history at its first and last
    line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", key_display="⏎"),
        Binding("alt+enter", "new_line", "Line", key_display="alt+⏎"),
    ]

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, history: list[str], *, id: str | None = None) -> None:
        """history: what was sent before, oldest first; grows here."""
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask something",
        )
        self.history_lines = history
        self._at: int | None = None
        self._draft = ""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._submit()
        elif event.key in _NEW_LINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (event.key == "up" and self.cursor_location[0] == 0 and self._leaf(-1)) or (
            event.key == "down"
            and self.cursor_location[0] == self.document.line_count - 1
            and self._leaf(1)
        ):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def action_send(self) -> None:
        """For the mouse; the key itself never gets past the text area."""
        self._submit()

    def action_new_line(self) -> None:
        self.insert("\n")

    def put(self, text: str) -> None:
        """Show `text` with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def _submit(self) -> None:
        text = self.text.strip("\n")
        if text.strip():
            self._at = None
            self.post_message(self.Submitted(text))

    def remember(self, text: str) -> None:
        """Add what was sent to the history, unless it is there as the newest."""
        if not self.history_lines or self.history_lines[-1] != text:
            self.history_lines.append(text)
        del self.history_lines[:-200]

    def _leaf(self, step: int) -> bool:
        """Go to an older (-1) or newer (1) entry; False when there is none."""
        lines = self.history_lines
        if self._at is None:
            if step > 0 or not lines:
                return False
            self._draft, self._at = self.text, len(lines) - 1
        elif 0 <= self._at + step < len(lines):
            self._at += step
        elif step > 0:
            self._at = None
            self.put(self._draft)
            return True
        else:
            return True
        self.put(lines[self._at])
        return True
