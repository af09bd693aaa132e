"""Python's collector of reference cycles, kept away from the moments in which the user waits.

A full collection walks over every object of the program, styles and widgets included: about 50 ms,
in which no key is answered, several times a minute while an answer streams. Young objects are
still collected as usual, which takes a millisecond; the full walk waits for a quiet moment.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1_000_000
"""Collections of the middle generation between two full ones: more than a day has."""
_DUE = 30
"""Collections of the middle generation after which a full one is worth its time."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """No full collection by itself in here; what exists already is not walked over again."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(before[0], before[1], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def collect_if_due() -> None:
    """The full walk, if enough has piled up; for moments in which nobody waits."""
    if gc.get_count()[2] >= _DUE:
        gc.collect()
