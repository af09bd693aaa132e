"""What a target pass costs by its width, measured once when models are loaded."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from localspec.llama.batch import Outputs
from localspec.llama.context import Context

_REPEATS = 3
_BUDGET_S = 1.5
"""Probing stops here on slow devices; the widths that are missing are interpolated and learned."""


def probe_costs(context: Context, widths: Iterable[int]) -> dict[int, float]:
    """Seconds of a pass over n tokens with n rows of logits, the best of a few, by width.

    The context must be empty, and is empty afterwards. Widths are taken in the order given until
    the time is used up; the first is always measured. The first pass of all only warms up.
    """
    token = context.model.vocabulary.bos or 0
    begun = perf_counter()
    context.evaluate([token], Outputs.ALL)
    costs: dict[int, float] = {}
    for width in widths:
        if costs and perf_counter() - begun > _BUDGET_S:
            break
        samples: list[float] = []
        for _ in range(_REPEATS):
            if context.n_tokens() + width > context.n_ctx:
                context.clear()
            start = perf_counter()
            context.evaluate([token] * width, Outputs.ALL)
            # Logits are asked for, since a GPU works on after decode has returned.
            float(context.logits[0, 0])
            samples.append(perf_counter() - start)
        costs[width] = min(samples)
    context.clear()
    return costs
