"""The nearest spelling of a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` names of `known` that `name` may have meant, best first.

    A name that contains the asked one counts as near, whatever its length.
    """
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    asked = name.lower()
    found = difflib.get_close_matches(asked, by_lower, n=count, cutoff=0.6)
    if len(asked) >= 3:
        found += [low for low in sorted(by_lower, key=len) if asked in low and low not in found]
    return [by_lower[low] for low in found[:count]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'a' or 'b'?`, or the empty string when nothing is near."""
    found = [repr(candidate) for candidate in nearest(name, known)]
    if not found:
        return ""
    head, last = found[:-1], found[-1]
    return f"did you mean {', '.join(head)} or {last}?" if head else f"did you mean {last}?"
