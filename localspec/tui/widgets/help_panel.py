"""Help beside a screen: what its figures mean, and every key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from localspec.tui.markdown.blocks import blocks_of
from localspec.tui.markdown.render import render
from localspec.tui.theme import Look

_WIDTH = 48
_SIGNS = {
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "delete": "del",
    "slash": "/",
    "question_mark": "?",
}


class HelpPanel(VerticalScroll, can_focus=True):
    """Mounted when asked for; Escape or the same key takes it away."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    def __init__(self, text: str, keys: list[tuple[str, str]], look: Look) -> None:
        """keys: key and what it does."""
        super().__init__(id="help")
        self.border_title = "Help"
        self.border_subtitle = "esc closes"
        self._text = text
        self._keys = keys
        self._look = look

    def compose(self) -> ComposeResult:
        yield Static(self._content())

    def on_mount(self) -> None:
        # All but the top bar and the footer; a docked widget's margins do not shrink it.
        self.styles.height = max(6, self.screen.size.height - 2)

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self._look = look
        self.query_one(Static).update(self._content())

    def action_close(self) -> None:
        self.remove()

    def _content(self) -> Text:
        lines: list[Text] = []
        for index, block in enumerate(blocks_of(self._text)):
            if index:
                lines.append(Text())
            lines += render(block, _WIDTH - 6, self._look, self.app.console, tint=False)
        if self._keys:
            lines += [Text(), Text("Keys", f"bold {self._look.accent}")]
            width = max(len(key_name(key)) for key, _ in self._keys)
            lines += [
                Text.assemble(
                    (key_name(key).rjust(width), self._look.accent), "  ", (what, self._look.text)
                )
                for key, what in self._keys
            ]
        return Text("\n").join(lines)


def named_keys(bindings: Sequence[object]) -> list[tuple[str, str, str]]:
    """Key, description and action of each binding that has a description of its own."""
    found: dict[str, tuple[str, str, str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding) and binding.description:
            key = binding.key_display or binding.key.split(",")[0]
            action = binding.action.split("(")[0]
            found.setdefault(
                f"{binding.description} {action}", (key, binding.description, binding.action)
            )
    return list(found.values())


def key_name(key: str) -> str:
    """`ctrl+r` as it is, `enter` as `⏎`."""
    *modifiers, last = key.split("+")
    shown = _SIGNS.get(last, last.upper() if last.startswith("f") and last[1:].isdigit() else last)
    return "+".join([*modifiers, shown])
