"""Tables of Markdown, columns as wide as their words, narrowed together where room is short."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode
from rich.console import Console
from rich.text import Text

from localspec.tui.markdown.inline import Tint, inline
from localspec.tui.theme import Look

_GAP = 2
_LEAST = 4


def table_lines(
    node: SyntaxTreeNode, width: int, look: Look, tint: Tint, console: Console
) -> list[Text]:
    """Lines of a table node of markdown-it."""
    rows: list[list[Text]] = []
    right: set[int] = set()
    for part in node.children:
        for row in part.children:
            cells = []
            for index, cell in enumerate(row.children):
                text = inline(cell.children[0].children if cell.children else (), look, tint)
                if cell.type == "th":
                    text.stylize("bold")
                if "right" in str(cell.attrGet("style") or ""):
                    right.add(index)
                cells.append(text)
            rows.append(cells)
    count = max((len(row) for row in rows), default=0)
    if not count:
        return []
    widths = [
        max((row[i].cell_len for row in rows if i < len(row)), default=0) for i in range(count)
    ]
    room = width - _GAP * (count - 1)
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    lines: list[Text] = []
    for number, texts in enumerate(rows):
        parts = [
            list(cell.wrap(console, max(1, widths[i]), overflow="fold")) or [Text()]
            for i, cell in enumerate(texts)
        ]
        for level in range(max((len(part) for part in parts), default=0)):
            line = Text(style=look.text)
            for i, cell_lines in enumerate(parts):
                piece = cell_lines[level].copy() if level < len(cell_lines) else Text()
                room_left = max(0, widths[i] - piece.cell_len)
                if i in right:
                    piece.pad_left(room_left)
                else:
                    piece.pad_right(room_left)
                line.append_text(piece)
                if i < len(parts) - 1:
                    line.append(" " * _GAP)
            line.truncate(width)
            lines.append(line)
        if number == 0:
            rule = "─" * min(width, sum(widths) + _GAP * (count - 1))
            lines.append(Text(rule, look.faint))
    return lines
