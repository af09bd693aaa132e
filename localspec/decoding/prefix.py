"""How far two token sequences agree."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCK = 256


def common_prefix(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many tokens two sequences share from their start.

    Compared by blocks: whole slices compare at the speed of C, single tokens do not.
    """
    limit = min(len(held), len(wanted))
    for start in range(0, limit, _BLOCK):
        end = min(start + _BLOCK, limit)
        if list(held[start:end]) != list(wanted[start:end]):
            return next(place for place in range(start, end) if held[place] != wanted[place])
    return limit
