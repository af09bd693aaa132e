"""One block of Markdown as lines of a given width."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.console import Console
from rich.text import Text

from localspec.tui.markdown.blocks import Block
from localspec.tui.markdown.code import highlighted, load_common_lexers
from localspec.tui.markdown.inline import Tint, inline
from localspec.tui.markdown.tables import table_lines
from localspec.tui.theme import Look

_LEAST_WIDTH = 8
_BULLETS = "•◦▪"


def render(block: Block, width: int, look: Look, console: Console, *, tint: bool) -> list[Text]:
    """The lines of a block, each at most `width` cells; the gap before it is not among them.

    tint: whether drafted text is shown on another ground.
    """
    width = max(_LEAST_WIDTH, width)
    marks = Tint(block.source, block.drafted, look, shown=tint)
    renderer = _Renderer(look, console, marks)
    if block.kind == "code":
        lines = renderer.code(block, width)
    else:
        tree = SyntaxTreeNode(_parser().parse(block.source))
        lines = renderer.blocks(tree.children, width)
    for line in lines:
        # Only what is nested deeper than the width allows: bullets need room too.
        if line.cell_len > width:
            line.truncate(width)
    return lines


def prepare() -> None:
    """Make what the first block would have to wait for; takes a few tenths of a second."""
    _parser().parse("*a* `b`\n\n- c\n")
    load_common_lexers()


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class _Renderer:
    def __init__(self, look: Look, console: Console, tint: Tint) -> None:
        self._look = look
        self._console = console
        self._tint = tint
        self._depth = 0

    def blocks(
        self, nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool = False
    ) -> list[Text]:
        lines: list[Text] = []
        for index, node in enumerate(nodes):
            if index and not tight:
                lines.append(Text())
            lines += self._block(node, max(_LEAST_WIDTH, width))
        return lines

    def code(self, block: Block, width: int) -> list[Text]:
        return self._code(block.source, block.language if block.first else "", width, block)

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "paragraph":
                return self._wrapped(self._inline(node), width)
            case "heading":
                text = self._inline(node)
                text.stylize(f"bold {self._look.accent}" if node.tag in ("h1", "h2") else "bold")
                return self._wrapped(text, width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "blockquote":
                inner = self.blocks(node.children, width - 2)
                return [Text("▎ ", self._look.faint) + line for line in inner]
            case "fence" | "code_block":
                language = node.info.split()[0] if node.info.strip() else ""
                return self._code(node.content, language, width)
            case "hr":
                return [Text("─" * width, self._look.faint)]
            case "table":
                return table_lines(node, width, self._look, self._tint, self._console)
            case _:
                text = Text(style=self._look.text)
                self._tint.append(text, node.content.rstrip("\n"))
                return self._wrapped(text, width)

    def _inline(self, node: SyntaxTreeNode) -> Text:
        return inline(node.children[0].children if node.children else (), self._look, self._tint)

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        start = int(node.attrGet("start") or 1) if node.type == "ordered_list" else None
        tight = all(
            child.hidden
            for item in node.children
            for child in item.children
            if child.type == "paragraph"
        )
        last = (start or 0) + len(node.children) - 1
        indent = len(str(last)) + 2 if start is not None else 2
        lines: list[Text] = []
        for index, item in enumerate(node.children):
            if index and not tight:
                lines.append(Text())
            if start is not None:
                mark = f"{start + index}.".rjust(indent - 1) + " "
            else:
                mark = _BULLETS[min(self._depth, len(_BULLETS) - 1)] + " "
            self._depth += 1
            inner = self.blocks(item.children, width - indent, tight=tight) or [Text()]
            self._depth -= 1
            for number, line in enumerate(inner):
                lines.append(Text(mark if number == 0 else " " * indent, self._look.accent) + line)
        return lines

    def _code(
        self, source: str, language: str, width: int, block: Block | None = None
    ) -> list[Text]:
        text = highlighted(
            source.rstrip("\n"), language or (block.language if block else ""), self._look
        )
        if block is not None:
            self._tint.cover(text, 0, 0, len(text))
        ground = f"on {self._look.code}"
        lines = []
        if language:
            lines.append(Text(language.rjust(width - 1) + " ", f"{self._look.muted} {ground}"))
        for line in text.split("\n", allow_blank=True):
            for part in _folded(line, width - 2):
                part.pad_left(1)
                part.pad_right(max(0, width - part.cell_len))
                padded = Text(style=ground)
                padded.append_text(part)
                lines.append(padded)
        return lines

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        if not text.plain:
            return []
        return list(text.wrap(self._console, width, overflow="fold", tab_size=4))


def _folded(line: Text, width: int) -> list[Text]:
    """Parts of a line of code, cut hard: spaces mean something in code."""
    line = line.copy()
    line.expand_tabs(4)
    width = max(1, width)
    if line.cell_len <= width:
        return [line]
    if line.cell_len == len(line):
        return list(line.divide(range(width, len(line), width)))
    parts: list[int] = []
    cells = 0
    from rich.cells import get_character_cell_size

    for index, character in enumerate(line.plain):
        size = get_character_cell_size(character)
        if cells + size > width:
            parts.append(index)
            cells = 0
        cells += size
    return list(line.divide(parts))
