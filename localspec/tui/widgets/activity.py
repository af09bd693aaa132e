"""One line for what goes on now: a bar with words, a question's answer, an error with a way out."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.theme import Look
from localspec.tui.widgets.topbar import bar_text


class Activity(Widget):
    """Hidden while there is nothing to say."""

    DEFAULT_CSS = "Activity { height: auto; max-height: 3; display: none; padding: 0 1; }"

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._text = ""
        self._hint = ""
        self._share: float | None = None
        self._level = ""

    @property
    def shown(self) -> str:
        """The words, for tests and for screen readers."""
        return f"{self._text} {self._hint}".strip() if self.display else ""

    def progress(self, text: str, share: float | None, detail: str = "") -> None:
        self._text, self._share, self._hint, self._level = text, share, detail, ""
        self.display = True
        self.refresh(layout=True)

    def say(self, text: str, hint: str = "", *, level: str = "") -> None:
        """level: empty, `warn` or `bad`."""
        self._text, self._share, self._hint, self._level = text, None, hint, level
        self.display = True
        self.refresh(layout=True)

    def clear(self) -> None:
        if self.display:
            self._text = self._hint = ""
            self.display = False

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        look = self.look
        if self._share is not None:
            width = max(8, min(40, self.size.width - len(self._text) - len(self._hint) - 10))
            text = Text(f"{self._text} ", look.text)
            text.append_text(bar_text(self._share, width, look.accent, look.faint))
            text.append(f" {self._share * 100:3.0f} %", look.text)
            text.append(f"  {self._hint}" if self._hint else "", look.muted)
            text.truncate(self.size.width)
            return text
        signs = {"warn": ("! ", look.warn), "bad": ("✗ ", look.bad)}
        sign, colour = signs.get(self._level, ("", look.text))
        text = Text(sign + self._text, colour)
        if self._hint:
            text.append(f"  {self._hint}", look.muted)
        return text
