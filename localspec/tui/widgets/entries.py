"""The pieces a transcript is made of, each rendered to lines on its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from localspec.tui.markdown.blocks import Block
from localspec.tui.markdown.render import render
from localspec.tui.theme import Look
from localspec.units import format_duration

_LEGEND = " drafted text is tinted "


@dataclass(frozen=True, slots=True)
class Drawing:
    """How lines are to be made."""

    width: int
    look: Look
    console: Console
    tint: bool


class Entry(ABC):
    """Something in the transcript. `turn` is the index of the message it belongs to, or -1."""

    turn: int = -1

    @abstractmethod
    def lines(self, drawing: Drawing) -> list[Text]:
        """Lines of at most `drawing.width` cells, gaps before it included."""


class Speaker(Entry):
    """Who speaks; for answers also which pair."""

    def __init__(self, turn: int, name: str, detail: str = "", *, is_user: bool) -> None:
        self.turn = turn
        self._name = name
        self._detail = detail
        self._is_user = is_user
        self.has_drafted = False
        """Whether drafted text follows: the colour of its ground is named here."""

    def lines(self, drawing: Drawing) -> list[Text]:
        look = drawing.look
        style = f"bold {look.muted}" if self._is_user else f"bold {look.accent}"
        line = Text(self._name, style)
        if self._detail:
            line.append(f"  {self._detail}", f"not bold {look.muted}")
        line.truncate(drawing.width, overflow="ellipsis")
        if self.has_drafted and drawing.tint:
            room = drawing.width - line.cell_len - len(_LEGEND)
            if room > 1:
                line.append(" " * room, "not bold")
                line.append(_LEGEND, f"not bold {look.muted} on {look.drafted}")
        return [Text(), line] if self.turn else [line]


class Said(Entry):
    """What the user wrote, as it is."""

    def __init__(self, turn: int, text: str) -> None:
        self.turn = turn
        self._text = text

    def lines(self, drawing: Drawing) -> list[Text]:
        text = Text(self._text.rstrip(), drawing.look.text)
        width = max(8, drawing.width - 2)
        bar = Text("▎ ", drawing.look.faint)
        wrapped = text.wrap(drawing.console, width, overflow="fold", tab_size=4)
        return [bar + line for line in wrapped]


class Answered(Entry):
    """One block of an answer."""

    def __init__(self, turn: int, block: Block, *, opens: bool) -> None:
        self.turn = turn
        self.block = block
        self._opens = opens

    def lines(self, drawing: Drawing) -> list[Text]:
        body = render(self.block, drawing.width, drawing.look, drawing.console, tint=drawing.tint)
        return [Text(), *body] if self.block.first and not self._opens and body else body


class Thought(Entry):
    """A thinking block: one line when folded, muted text when open."""

    def __init__(self, turn: int, text: str = "", seconds: float | None = None) -> None:
        self.turn = turn
        self.text = text
        self.seconds = seconds
        """None while it goes on, or when nobody measured."""
        self.folded = True
        self.is_running = False

    def lines(self, drawing: Drawing) -> list[Text]:
        look = drawing.look
        if self.is_running:
            title = "thinking…"
        else:
            time = f" for {format_duration(self.seconds)}" if self.seconds else ""
            title = f"thought{time} ({len(self.text.split()):,} words)"
        head = Text(f"{'▸' if self.folded else '▾'} {title}", f"italic {look.muted}")
        if self.folded:
            return [head]
        text = Text(self.text.strip(), look.muted)
        width = max(8, drawing.width - 2)
        wrapped = text.wrap(drawing.console, width, overflow="fold", tab_size=4)
        return [head, *(Text("│ ", look.faint) + line for line in wrapped), Text()]


class Remark(Entry):
    """Figures below an answer, a notice, or an error with its way out."""

    def __init__(self, turn: int, text: str, hint: str = "", *, level: str = "") -> None:
        self.turn = turn
        self._text = text
        self._hint = hint
        self._level = level
        """Empty for figures, else `warn` or `bad`."""

    def lines(self, drawing: Drawing) -> list[Text]:
        look = drawing.look
        if not self._level:
            text = Text(self._text, look.muted)
            return [Text(), *text.wrap(drawing.console, drawing.width, overflow="fold")]
        colour = look.warn if self._level == "warn" else look.bad
        sign = "!" if self._level == "warn" else "✗"
        width = max(8, drawing.width - 2)
        lines: list[Text] = [Text()]
        body = Text(self._text, colour).wrap(drawing.console, width, overflow="fold")
        lines += [
            Text(f"{sign} " if index == 0 else "  ", f"bold {colour}") + line
            for index, line in enumerate(body)
        ]
        if self._hint:
            hint = Text(self._hint, look.muted).wrap(drawing.console, width, overflow="fold")
            lines += [Text("  ") + line for line in hint]
        return lines
