"""The size of a file that nobody has asked the Hub about yet, guessed from its name."""

from __future__ import annotations

import re

_PARAMETERS = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s*([BbMm])(?![A-Za-z0-9])")
_HEAD = re.compile(r"dflash|dspark|eagle|(?<![a-z])mtp", re.IGNORECASE)
"""Heads bear the name of their target, whose size is not theirs."""
_BITS = {
    "IQ2": 2.6,
    "Q2": 3.0,
    "IQ3": 3.5,
    "Q3": 3.9,
    "IQ4": 4.4,
    "Q4_0": 4.6,
    "Q4_1": 5.0,
    "MXFP4": 4.4,
    "NVFP4": 4.6,
    "Q4": 4.9,
    "Q5": 5.7,
    "Q6": 6.6,
    "Q8": 8.6,
    "BF16": 16.1,
    "F16": 16.1,
    "FP16": 16.1,
    "F32": 32.1,
}
"""Bits per weight of whole files, embeddings and scales included, by the start of the name of the
quantisation; the longest start that matches counts."""
_USUAL_BITS = 4.9


def guessed_size(name: str) -> int | None:
    """Bytes of a model file called `name`, within about a tenth; None when it names no size.

    `Qwen3-30B-A3B-Q4_K_M` counts all 30 billion weights: all of them have to be in memory.
    """
    found = _PARAMETERS.search(name)
    if found is None or _HEAD.search(name):
        return None
    count = float(found[1]) * (1e9 if found[2] in "Bb" else 1e6)
    upper = name.upper()
    kinds = [kind for kind in _BITS if re.search(rf"(?<![A-Z0-9]){kind}", upper)]
    bits = _BITS[max(kinds, key=len)] if kinds else _USUAL_BITS
    return int(count * bits / 8)
