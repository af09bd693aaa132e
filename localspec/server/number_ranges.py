"""GBNF for numbers between two bounds, written as JSON writes them."""

from __future__ import annotations

import math
from fractions import Fraction

from localspec.server.gbnf import choice, literal

_DIGITS = 15
"""Digits of a number without an upper bound: what a double holds exactly."""
_MOST_LISTED = 200


def integers(least: int | None, most: int | None) -> str | None:
    """Integers from `least` to `most`, both included; None when there is none."""
    if least is not None and most is not None and least > most:
        return None
    parts = []
    if least is None or least < 0:
        low = 1 if most is None or most > -1 else -most
        parts.append('"-" ' + _natural(low, None if least is None else -least))
    if most is None or most >= 0:
        parts.append(_natural(max(0, least or 0), most))
    return choice(parts)


def numbers(
    least: Fraction | None, most: Fraction | None, *, above: bool = False, below: bool = False
) -> str | None:
    """Numbers from `least` to `most`; above, below: the bound itself is not one of them.

    The integers of the range, and every fraction between two of them; in a range that lies between
    two integers, the shortest fractions.
    """
    low = None if least is None else math.ceil(least)
    high = None if most is None else math.floor(most)
    if low is not None and above and low == least:
        low += 1
    if high is not None and below and high == most:
        high -= 1
    parts = [part] if (part := integers(low, high)) is not None else []
    # k.f with a fraction that is not zero lies strictly between k and k + 1.
    fraction = '"." [0-9]{0,9} [1-9]'
    first = 0 if least is None else max(0, math.ceil(least))
    last = None if most is None else math.floor(most) - 1
    if last is None or first <= last:
        parts.append(f"{_natural(first, last)} {fraction}")
    first = 0 if most is None else max(0, math.ceil(-most))
    last = None if least is None else math.floor(-least) - 1
    if last is None or first <= last:
        parts.append(f'"-" {_natural(first, last)} {fraction}')
    if not parts and least is not None and most is not None:
        parts = _listed(least, most, above, below)
    return choice(parts) if parts else None


def _natural(least: int, most: int | None) -> str:
    """Integers from `least` to `most` without a sign and without leading zeros."""
    length = len(str(least))
    if most is None:
        longest = max(_DIGITS, length + 1)
        longer = f"[1-9] [0-9]{{{length},{longest - 1}}}"
        return choice([_same_length(str(least), "9" * length), longer])
    parts = []
    while length < len(str(most)):
        parts.append(_same_length(str(least), "9" * length))
        least = 10**length
        length += 1
    parts.append(_same_length(str(least), str(most)))
    return choice(parts)


def _same_length(low: str, high: str) -> str:
    """Digit strings from `low` to `high`, all of one length."""
    if not low:
        return '""'
    if low == high:
        return literal(low)
    rest = len(low) - 1
    if low[0] == high[0]:
        return f"{literal(low[0])} {_same_length(low[1:], high[1:])}"
    if rest == 0:
        return f"[{low}-{high}]"
    any_rest = f"[0-9]{{{rest}}}"
    parts = []
    first, last = int(low[0]), int(high[0])
    if low[1:] != "0" * rest:
        parts.append(f'"{first}" {_same_length(low[1:], "9" * rest)}')
        first += 1
    open_end = high[1:] != "9" * rest
    if open_end:
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}] {any_rest}")
    if open_end:
        parts.append(f'"{high[0]}" {_same_length("0" * rest, high[1:])}')
    return choice(parts)


def _listed(least: Fraction, most: Fraction, above: bool, below: bool) -> list[str]:
    """The shortest fractions of a range without integers."""
    for digits in range(1, 16):
        scale = 10**digits
        found = [
            value
            for value in range(
                math.ceil(least * scale),
                min(math.floor(most * scale), math.ceil(least * scale) + _MOST_LISTED) + 1,
            )
            if not (above and Fraction(value, scale) == least)
            and not (below and Fraction(value, scale) == most)
        ]
        if found:
            return [literal(_decimal(value, digits)) for value in found]
    return []


def _decimal(value: int, digits: int) -> str:
    whole, part = divmod(abs(value), 10**digits)
    return f"{'-' if value < 0 else ''}{whole}.{part:0{digits}}"
