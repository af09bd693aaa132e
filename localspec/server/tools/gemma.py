"""Gemma's notation for calls: `call:name{key:<|"|>text<|"|>,other:3}`; FunctionGemma's `<escape>`
delimits text the same way."""

from __future__ import annotations

import json
from typing import Any

from localspec.server.tools.calls import NoCall

_QUOTES = ('<|"|>', "<escape>", '"')
_MOST_LEVELS = 32


def gemma_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments. Raises NoCall."""
    reader = _Reader(text)
    calls = []
    while reader.skip_blanks():
        if not reader.take("call:"):
            raise NoCall("no call")
        name = reader.until("{").strip()
        calls.append((name, reader.entries(0)))
    if not calls:
        raise NoCall("no call")
    return calls


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def skip_blanks(self) -> bool:
        """Whether anything follows them."""
        while self._place < len(self._text) and self._text[self._place] in " \t\r\n":
            self._place += 1
        return self._place < len(self._text)

    def take(self, mark: str) -> bool:
        self.skip_blanks()
        if not self._text.startswith(mark, self._place):
            return False
        self._place += len(mark)
        return True

    def until(self, mark: str) -> str:
        """Text up to `mark`, which is taken too."""
        end = self._text.find(mark, self._place)
        if end < 0:
            raise NoCall(f"no {mark}")
        found = self._text[self._place : end]
        self._place = end + len(mark)
        return found

    def entries(self, level: int) -> dict[str, Any]:
        """Keys and values, up to the closing brace."""
        found: dict[str, Any] = {}
        while not self.take("}"):
            quote = next((q for q in _QUOTES if self.take(q)), None)
            key = self.until(quote) if quote else self.until(":").strip()
            if quote and not self.take(":"):
                raise NoCall("a key without a value")
            found[key] = self._value(level + 1)
            self.take(",")
        return found

    def _value(self, level: int) -> Any:
        if level > _MOST_LEVELS:
            raise NoCall("too deep")
        quote = next((q for q in _QUOTES if self.take(q)), None)
        if quote:
            return self.until(quote)
        if self.take("{"):
            return self.entries(level)
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self._value(level + 1))
                self.take(",")
            return items
        end = self._place
        while end < len(self._text) and self._text[end] not in ",}]":
            end += 1
        word = self._text[self._place : end].strip()
        if not word:
            raise NoCall("a value is missing")
        self._place = end
        try:
            return json.loads(word)
        except ValueError:
            return word
