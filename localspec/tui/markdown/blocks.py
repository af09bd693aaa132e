"""Splits a growing Markdown text into blocks: all but the last are closed and never change.

The split is by lines, so that appending costs the length of the open block, not of the text. It
cuts where CommonMark could not join the parts again in a way that shows: at blank lines outside of
fences and list items, between items of long lists, and inside long code blocks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

CODE_PIECE = 40
"""Lines after which the open part of a code block is closed."""
LIST_PIECE = 24
"""Lines after which a list is cut at its next item."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the text that is rendered on its own."""

    kind: str
    """`markdown`, or `code` for (a piece of) a fenced block without its fences."""
    source: str
    drafted: Ranges = ()
    """Ranges of `source` that came from a drafter."""
    language: str = ""
    first: bool = True
    """Whether a blank line goes before it, and, of a code block, its top edge."""
    last: bool = True
    """Of a code block: whether it ends here."""


class BlockStream:
    """Text in, blocks out. `closed` only grows; `open` is the block that still changes."""

    def __init__(self) -> None:
        self.closed: list[Block] = []
        self._parts: list[str] = []
        self._length = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._tail = ""
        self._tail_start = 0
        self._fence = ""
        self._language = ""
        self._is_continued = False
        self._scanned = 0
        self._lines = 0
        self._in_list = False
        self._inner_fence = ""
        self._blank = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def drafted(self) -> Ranges:
        """Ranges of the whole text that came from a drafter, joined where they touch."""
        return tuple(zip(self._starts, self._ends, strict=True))

    def append(self, text: str, *, drafted: bool = False) -> None:
        """Add text at the end."""
        if not text:
            return
        if drafted:
            if self._ends and self._ends[-1] == self._length:
                self._ends[-1] += len(text)
            else:
                self._starts.append(self._length)
                self._ends.append(self._length + len(text))
        self._parts.append(text)
        self._length += len(text)
        self._tail += text
        while (end := self._tail.find("\n", self._scanned)) >= 0:
            self._line(self._tail[self._scanned : end], end + 1)

    @property
    def open(self) -> Block | None:
        """The block at the end; None when the text ends with a closed one."""
        tail = self._tail
        if self._fence:
            # A closing fence that is still being written is no code.
            line = tail[self._scanned :]
            body = tail[: self._scanned] if line.strip() and _closes(line, self._fence) else tail
            return self._block(body, last=False) if body or not self._is_continued else None
        return self._block(tail) if tail.strip() else None

    def _line(self, line: str, end: int) -> None:
        """A whole line of the tail, which ends before `end`."""
        start, self._scanned = self._scanned, end
        if self._fence:
            if _closes(line, self._fence):
                self._cut(start, end, last=True)
                self._fence = ""
                self._is_continued = False
            else:
                self._lines += 1
                if self._lines >= CODE_PIECE:
                    self._cut(end, end, last=False)
                    self._is_continued = True
            return
        if self._inner_fence:
            if _closes(line.lstrip(), self._inner_fence):
                self._inner_fence = ""
            return
        if not line.strip():
            self._blank = True
            return
        indented = line[0] in " \t"
        was_blank, self._blank = self._blank, False
        if self._in_list and indented:
            if fence := _FENCE.match(line.lstrip()):
                self._inner_fence = fence[1]
            return
        fence = _FENCE.match(line)
        is_item = _ITEM.match(line) is not None
        if fence:
            self._cut(start, end)
            self._fence, self._language = fence[1], fence[2].split()[0] if fence[2].strip() else ""
            return
        if was_blank:
            self._cut(start, start)
            self._scanned = end - start
        elif is_item and self._in_list and self._lines >= LIST_PIECE:
            self._cut(start, start)
            self._scanned = end - start
            self._is_continued = True
        self._in_list = is_item or (self._in_list and not was_blank)
        self._lines += 1

    def _cut(self, end: int, rest: int, *, last: bool = True) -> None:
        """Close the tail before `end`; what is left of it begins at `rest`."""
        body = self._tail[:end]
        if body.strip() or (self._fence and (body or not self._is_continued or last)):
            self.closed.append(self._block(body, last=last))
        self._tail = self._tail[rest:]
        self._tail_start += rest
        self._scanned = 0
        self._lines = 0
        self._in_list = False
        self._is_continued = False

    def _block(self, source: str, *, last: bool = True) -> Block:
        kind = "code" if self._fence else "markdown"
        language = self._language if self._fence else ""
        marks = self._marks(self._tail_start, self._tail_start + len(source))
        return Block(kind, source, marks, language, not self._is_continued, last)

    def _marks(self, start: int, end: int) -> Ranges:
        index = bisect_right(self._ends, start)
        found = []
        while index < len(self._starts) and self._starts[index] < end:
            found.append((max(0, self._starts[index] - start), min(end, self._ends[index]) - start))
            index += 1
        return tuple(found)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def blocks_of(text: str, drafted: Ranges = ()) -> list[Block]:
    """The blocks of a finished text."""
    stream = BlockStream()
    position = 0
    for start, end in drafted:
        stream.append(text[position:start])
        stream.append(text[start:end], drafted=True)
        position = end
    stream.append(text[position:])
    rest = stream.open
    return [*stream.closed, rest] if rest is not None else stream.closed
