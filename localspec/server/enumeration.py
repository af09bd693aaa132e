"""One of many texts, as a grammar that shares their beginnings.

llama.cpp follows every alternative that is still possible, for every token it considers: a thousand
side by side take seconds a token, while those that share beginnings are a handful at any place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from localspec.server.gbnf import choice, literal

MOST_VALUES = 1000
"""As OpenAI has it for all enums of a schema together; here it is for each."""
_MOST_LEVELS = 32
"""llama.cpp's parser calls itself for every level of brackets."""


def one_of_texts(texts: Sequence[str]) -> str:
    """GBNF for any of `texts`, of which there must be one."""
    return _node(sorted(set(texts)), 0)


def _node(texts: Sequence[str], level: int) -> str:
    """texts: sorted, none twice."""
    if level == _MOST_LEVELS:
        return choice(map(literal, texts))
    shared = _shared_beginning(texts[0], texts[-1])
    if len(texts) == 1:
        return literal(shared)
    rest = [text[len(shared) :] for text in texts]
    branches = choice(_node(list(group), level + 1) for _, group in groupby(rest, _first))
    return f"{literal(shared)} {branches}" if shared else branches


def _shared_beginning(first: str, last: str) -> str:
    """Of a sorted list: what its ends share, all share."""
    for index, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:index]
    return first if len(first) < len(last) else last


def _first(text: str) -> str:
    return text[:1]
