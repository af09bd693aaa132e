"""GBNF without recursion as one regular expression, to hold grammars against other judges."""

from __future__ import annotations

import re


def as_regex(grammar: str, rule: str = "root") -> str:
    """A pattern for `re.fullmatch` that matches what `rule` of `grammar` matches."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())
    return _Reader(rules).rule(rule, ())


def expression_as_regex(expression: str) -> str:
    """The same of a single expression that names no rules."""
    return as_regex(f"root ::= {expression}")


class _Reader:
    def __init__(self, rules: dict[str, str]) -> None:
        self._rules = rules

    def rule(self, name: str, above: tuple[str, ...]) -> str:
        assert name not in above, f"{name} is recursive"
        found = []
        for part in _PARTS.findall(self._rules[name]):
            if part.startswith('"'):
                found.append(f"(?:{re.escape(_text(part[1:-1]))})")
            elif part.startswith("["):
                found.append(_class(part))
            elif part == "(":
                found.append("(?:")
            elif part[0].isalpha():
                found.append(f"(?:{self.rule(part, (*above, name))})")
            else:
                found.append(part)
        return "".join(found)


_PARTS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d*,?\d*\}|[A-Za-z][\w-]*|[()|*+?]', re.DOTALL
)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)


def _text(written: str) -> str:
    named = {"n": "\n", "r": "\r", "t": "\t"}
    return _ESCAPE.sub(
        lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else named.get(m[1], m[1]), written
    )


def _class(written: str) -> str:
    inside = written[1:-1]
    negated = inside.startswith("^")
    inside = inside[1:] if negated else inside
    found = ""
    for match in re.finditer(r"\\x[0-9A-Fa-f]{2}|\\.|.", inside, re.DOTALL):
        piece = match[0]
        found += "-" if piece == "-" else re.escape(_text(piece))
    return f"[{'^' if negated else ''}{found}]"
