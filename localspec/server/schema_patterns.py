"""GBNF for strings that match a regular expression, as JSON writes strings.

A JSON schema's pattern may match anywhere in the string; here it matches all of it, which every
validator accepts as well.
"""

from __future__ import annotations

import json

from localspec.server.gbnf import MOST_REPEATS, choice, class_character, literal, repeat

_MOST_LEVELS = 32
_DIGIT = [("0", "9")]
_WORD = [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")]
_BLANK = [(" ", " ")]
_PLAIN = [(" ", "!"), ("#", "["), ("]", "~")]
"""Printable ASCII that JSON writes as it is: what a dot or a negated class stands for."""

_Ranges = list[tuple[str, str]]


class PatternError(ValueError):
    """A pattern that is broken, or has parts that a grammar cannot express."""


def pattern_rule(pattern: str) -> str:
    """GBNF for the text between the quotes. Raises PatternError."""
    reader = _Reader(pattern)
    rule = reader.alternatives(0)
    if not reader.at_end:
        raise PatternError(f"pattern {pattern!r}: unexpected ) at {reader.place}")
    return rule


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self.place = 0

    @property
    def at_end(self) -> bool:
        return self.place >= len(self._text)

    def alternatives(self, level: int) -> str:
        if level > _MOST_LEVELS:
            raise self._wrong("too many groups inside each other")
        found = [self._sequence(level)]
        while self._take("|"):
            found.append(self._sequence(level))
        return choice(found)

    def _sequence(self, level: int) -> str:
        items: list[str] = []
        while not self.at_end and self._peek() not in "|)":
            if self._take("^"):
                if items:
                    raise self._wrong("^ in the middle")
                continue
            if self._take("$"):
                if not self.at_end and self._peek() not in "|)":
                    raise self._wrong("$ in the middle")
                continue
            items.append(self._repeated(self._atom(level)))
        return " ".join(items) if items else '""'

    def _atom(self, level: int) -> str:
        character = self._next()
        if character == "(":
            if self._take("?") and not self._take(":"):
                raise self._wrong("only (?: of the (? groups")
            inside = self.alternatives(level + 1)
            if not self._take(")"):
                raise self._wrong("a group is not closed")
            return f"({inside})"
        if character == "[":
            return _class(self._class())
        if character == ".":
            return _class(_PLAIN)
        if character == "\\":
            ranges = self._escape()
            if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
                return _json_literal(ranges[0][0])
            return _class(ranges)
        if character in "*+?{":
            raise self._wrong(f"{character} repeats nothing")
        return _json_literal(character)

    def _repeated(self, item: str) -> str:
        least: int = 1
        most: int | None = 1
        if self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            most = None
        elif self._take("?"):
            least = 0
        elif self._take("{"):
            least, most = self._counts()
        else:
            return item
        # Laziness changes which text a search finds, not which text matches.
        self._take("?")
        if not self.at_end and self._peek() in "*+?{":
            raise self._wrong("a repetition is repeated")
        if " " in item and not item.startswith(("(", "[", '"')):
            item = f"({item})"
        return repeat(item, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self.place)
        low, comma, high = self._text[self.place : end].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise self._wrong("a count is broken")
        self.place = end + 1
        least = int(low[:9])
        most = int(high[:9]) if high else None if comma else least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise self._wrong(f"a count is beyond {MOST_REPEATS}")
        return least, most

    def _class(self) -> _Ranges:
        negated = self._take("^")
        ranges: _Ranges = []
        first = True
        while first or not self._take("]"):
            first = False
            if self.at_end:
                raise self._wrong("a class is not closed")
            low = self._class_item()
            if len(low) > 1 or low[0][0] != low[0][1]:
                ranges += low
                continue
            is_range = not self.at_end and self._peek() == "-" and self._peek(1) not in ("]", "")
            if not is_range:
                ranges += low
                continue
            self.place += 1
            high = self._class_item()
            if len(high) > 1 or high[0][1] < low[0][0]:
                raise self._wrong("a range in a class is broken")
            ranges.append((low[0][0], high[0][1]))
        return _without(_PLAIN, ranges) if negated else ranges

    def _class_item(self) -> _Ranges:
        character = self._next()
        return self._escape() if character == "\\" else [(character, character)]

    def _escape(self) -> _Ranges:
        character = self._next()
        classes = {"d": _DIGIT, "w": _WORD, "s": _BLANK}
        if character in classes:
            return classes[character]
        if character in "DWS":
            return _without(_PLAIN, classes[character.lower()])
        named = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
        if character in "xu":
            count = 2 if character == "x" else 4
            digits = self._text[self.place : self.place + count]
            try:
                code = int(digits, 16)
            except ValueError:
                raise self._wrong("an escape is broken") from None
            if len(digits) < count or 0xD800 <= code <= 0xDFFF:
                raise self._wrong("an escape is broken")
            self.place += count
            return [(chr(code), chr(code))]
        if character.isalnum() and character not in named:
            raise self._wrong(f"\\{character} cannot be expressed")
        plain = named.get(character, character)
        return [(plain, plain)]

    def _peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self._text[place] if place < len(self._text) else ""

    def _next(self) -> str:
        if self.at_end:
            raise self._wrong("it ends too early")
        self.place += 1
        return self._text[self.place - 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self.place += 1
        return True

    def _wrong(self, why: str) -> PatternError:
        return PatternError(f"pattern {self._text[:80]!r}: {why} (at {self.place})")


def _json_literal(character: str) -> str:
    return literal(json.dumps(character, ensure_ascii=False)[1:-1])


def _class(ranges: _Ranges) -> str:
    """Characters that JSON escapes are alternatives beside the class."""
    plain = _without(ranges, [("\0", "\x1f"), ('"', '"'), ("\\", "\\"), ("\x7f", "\x7f")])
    written = "".join(
        class_character(low) if low == high else f"{class_character(low)}-{class_character(high)}"
        for low, high in plain
    )
    escaped = [
        _json_literal(c)
        for c in ('"', "\\", "\n", "\t", "\r")
        if any(a <= c <= b for a, b in ranges)
    ]
    parts = ([f"[{written}]"] if written else []) + escaped
    if not parts:
        raise PatternError("a class of the pattern has no characters")
    return choice(parts)


def _without(ranges: _Ranges, taken: _Ranges) -> _Ranges:
    left = list(ranges)
    for low, high in taken:
        rest: _Ranges = []
        for a, b in left:
            if b < low or a > high:
                rest.append((a, b))
                continue
            if a < low:
                rest.append((a, chr(ord(low) - 1)))
            if b > high:
                rest.append((chr(ord(high) + 1), b))
        left = rest
    return left
