"""Building blocks of GBNF, llama.cpp's grammar notation: literals, classes, repetition, rules."""

from __future__ import annotations

from collections.abc import Iterable

MOST_REPEATS = 1000
"""llama.cpp refuses counts above 2000 in one repetition."""
_MOST_RULES = 4000
_MOST_CHARACTERS = 1 << 20

SPACE = 'space ::= "" | " " | "\\n" [ \\t]{0,20}'
"""White space between JSON tokens, bounded: without a bound some models never stop."""


class GrammarTooLarge(ValueError):
    """More rules or text than a grammar may have."""


class Rules:
    """Named rules, each defined once."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._by_body: dict[str, str] = {}
        self._size = 0
        self._used: set[str] = set()

    def reserve(self, wish: str) -> str:
        """A free name like `wish`, to be defined later."""
        letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in wish)[:40].strip("-")
        base = letters or "rule"
        name, number = base, 1
        while name in self._used:
            number += 1
            name = f"{base}-{number}"
        self._used.add(name)
        return name

    def define(self, name: str, body: str) -> None:
        """Raises GrammarTooLarge."""
        self._used.add(name)
        self._rules[name] = body
        self._size += len(name) + len(body)
        if len(self._rules) > _MOST_RULES or self._size > _MOST_CHARACTERS:
            raise GrammarTooLarge("the schema makes too large a grammar")

    def add(self, wish: str, body: str) -> str:
        """The name of a rule with this body, an existing one where there is one."""
        known = self._by_body.get(body)
        if known is not None:
            return known
        name = self.reserve(wish)
        self.define(name, body)
        self._by_body[body] = name
        return name

    def text(self) -> str:
        """All rules; `root` is where an answer begins."""
        return "\n".join(f"{name} ::= {body}" for name, body in self._rules.items()) + "\n"


def literal(text: str) -> str:
    """GBNF that matches exactly `text`."""
    return '"' + "".join(_escaped(character, '"\\') for character in text) + '"'


def class_character(character: str) -> str:
    """`character` as it stands inside of square brackets."""
    return _escaped(character, '"\\]^-[')


def choice(alternatives: Iterable[str]) -> str:
    """One of them; a group where there are several."""
    unique = list(dict.fromkeys(alternatives))
    return unique[0] if len(unique) == 1 else "(" + " | ".join(unique) + ")"


def repeat(item: str, least: int, most: int | None) -> str:
    """`item` from `least` to `most` times; large counts are nested, and never exceeded."""
    if most == 0:
        return '""'
    if least == most == 1:
        return item
    if most is None and least <= MOST_REPEATS:
        return f"{item}{'*' if least == 0 else '+' if least == 1 else f'{{{least},}}'}"
    if most is not None and most <= MOST_REPEATS:
        return f"{item}{{{least}}}" if least == most else f"{item}{{{least},{most}}}"
    parts = []
    if least >= 100:
        parts.append(f"({item}{{100}}){{{min(least // 100, MOST_REPEATS)}}}")
    if least % 100:
        parts.append(f"{item}{{{least % 100}}}")
    if most is None:
        parts.append(f"{item}*")
    elif most > least:
        extra = most - least
        if extra >= 100:
            parts.append(f"({item}{{0,100}}){{0,{min(extra // 100, MOST_REPEATS)}}}")
        if extra % 100:
            parts.append(f"{item}{{0,{extra % 100}}}")
    return "(" + " ".join(parts) + ")"


def _escaped(character: str, special: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if character in named:
        return named[character]
    if character in special:
        # Brackets, dashes and carets have no short escape.
        return f"\\{character}" if character in '"\\]' else f"\\x{ord(character):02X}"
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02X}"
    return character
