"""Inline Markdown as styled text, with drafted characters tinted where their source says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.tree import SyntaxTreeNode
from rich.style import Style
from rich.text import Text

from localspec.tui.markdown.blocks import Ranges
from localspec.tui.theme import Look

_WORDS = re.compile(r"\S(?:.*\S)?")


class Tint:
    """Finds rendered pieces in their source again, front to back, and tints what was drafted."""

    def __init__(self, source: str, drafted: Ranges, look: Look, *, shown: bool) -> None:
        self._source = source
        self._drafted = drafted
        self._style = Style(bgcolor=look.drafted)
        self._shown = shown and bool(drafted)
        self._cursor = 0

    def append(self, text: Text, piece: str, style: str | Style = "") -> None:
        """Add a piece that stands in the source as it is; one that does not gets no tint."""
        base = len(text)
        text.append(piece, style)
        if not self._shown or not piece:
            return
        at = self._source.find(piece, self._cursor)
        if at < 0:
            return
        self._cursor = at + len(piece)
        self.cover(text, base, at, len(piece))

    def cover(self, text: Text, base: int, at: int, length: int) -> None:
        """Tint characters of `text` from `base` on, which are the source's from `at` on."""
        if not self._shown:
            return
        for start, end in self._drafted:
            low, high = max(start, at), min(end, at + length)
            # Indentation is nobody's merit, and tinted it would look like a hole in the page.
            for words in _WORDS.finditer(self._source, low, max(low, high)):
                text.stylize(self._style, base + words.start() - at, base + words.end() - at)


def inline(nodes: Sequence[SyntaxTreeNode], look: Look, tint: Tint) -> Text:
    """The text of inline nodes; a line break of the source is a space, a hard one a line break."""
    text = Text(style=look.text)
    _walk(nodes, text, "", look, tint)
    return text


def _walk(nodes: Sequence[SyntaxTreeNode], text: Text, style: str, look: Look, tint: Tint) -> None:
    for node in nodes:
        match node.type:
            case "text":
                tint.append(text, node.content, style)
            case "code_inline":
                tint.append(text, node.content, f"{style} {look.number} on {look.code}".strip())
            case "softbreak":
                text.append(" ", style)
            case "hardbreak":
                text.append("\n", style)
            case "strong":
                _walk(node.children, text, f"{style} bold".strip(), look, tint)
            case "em":
                _walk(node.children, text, f"{style} italic".strip(), look, tint)
            case "s":
                _walk(node.children, text, f"{style} strike".strip(), look, tint)
            case "link":
                _walk(node.children, text, f"{style} underline {look.accent}".strip(), look, tint)
                target = str(node.attrGet("href") or "")
                if target and target != text.plain[-len(target) :]:
                    text.append(f" ({target})", look.muted)
            case "image":
                text.append(f"[{node.content or 'image'}]", look.muted)
            case _:
                if node.children:
                    _walk(node.children, text, style, look, tint)
                else:
                    tint.append(text, node.content, style)
