"""Distributions over next tokens, draws from them, and the rule that keeps a drawn draft token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Probabilities of the next token; tokens that are not named have none."""

    ids: npt.NDArray[np.int32]
    """Distinct token ids, in any order."""
    probabilities: npt.NDArray[np.float64]
    """Of each of `ids`, above 0; they add up to 1."""

    @property
    def highest(self) -> float:
        """The probability of the likeliest token."""
        return float(self.probabilities.max())

    def probability_of(self, token: int) -> float:
        return float(self.probabilities[self.ids == token].sum())


class Dice(Protocol):
    """Where chance comes from."""

    def happens(self, probability: float) -> bool:
        """True with this probability; always from 1.0 on, never at 0.0."""
        ...

    def pick(self, distribution: Distribution) -> int:
        """One token of the distribution."""
        ...


class SeededDice:
    """The same seed and purpose give the same throws; different purposes are independent."""

    def __init__(self, seed: int, purpose: int) -> None:
        self._random = np.random.default_rng((seed, purpose))

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def pick(self, distribution: Distribution) -> int:
        sums = np.cumsum(distribution.probabilities)
        at = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(distribution.ids[min(at, len(sums) - 1)])


def acceptance(target: Distribution, proposal: Distribution, token: int) -> float:
    """The probability of keeping `token`, which was drawn from `proposal`: min(1, p / q)."""
    said, proposed = target.probability_of(token), proposal.probability_of(token)
    return 1.0 if said >= proposed else said / proposed


def residual(target: Distribution, proposal: Distribution) -> Distribution | None:
    """What a rejected token is replaced from: max(0, p - q) made to add up to 1.

    None where nothing is left: the two are the same, up to rounding.
    """
    proposed = np.zeros(1 + max(int(target.ids.max()), int(proposal.ids.max())))
    proposed[proposal.ids] = proposal.probabilities
    left = target.probabilities - proposed[target.ids]
    more = left > 0.0
    if not more.any():
        return None
    left = left[more]
    return Distribution(target.ids[more], left / left.sum())


def overlap(target: Distribution, proposal: Distribution) -> float:
    """The probability that a token drawn from `proposal` is kept: the sum of min(p, q)."""
    proposed = np.zeros(1 + max(int(target.ids.max()), int(proposal.ids.max())))
    proposed[proposal.ids] = proposal.probabilities
    return float(np.minimum(target.probabilities, proposed[target.ids]).sum())


def keep_or_replace(target: Distribution, proposal: Distribution, token: int, dice: Dice) -> int:
    """`token`, or another one that the target says in its place; distributed as `target` is.

    token: drawn from `proposal`, and nothing about it may have decided that it is put to this test.
    Speculative sampling: Leviathan et al., arXiv:2211.17192, section 2.3; Chen et al.,
    arXiv:2302.01318, algorithm 2. A replacement never equals `token`.
    """
    if dice.happens(acceptance(target, proposal, token)):
        return token
    rest = residual(target, proposal)
    return token if rest is None else dice.pick(rest)
