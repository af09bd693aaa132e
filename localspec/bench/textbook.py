"""The speed-up that the textbook formula promises, to hold beside the one that was measured.

Leviathan et al., arXiv:2211.17192, theorem 3.8: with acceptance α of each token, γ draft tokens in
a round and c the cost of proposing one token over the cost of one plain token, speculation is
faster by (1 − α^(γ+1)) / ((1 − α)(cγ + 1)). The formula takes a target pass over γ + 1 tokens to
cost no more than one over a single token. Where the measured speed-up stays below the prediction,
the difference is what the wider pass really costs on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.events import Speculation


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the formula was given and what it gives."""

    alpha: float
    """Chance that a draft token is right when all before it were: accepted / (accepted + rounds
    that ended in a rejection). Higher than the acceptance rate, in which the tokens behind a
    rejection count as drafted although nobody looked at them."""
    gamma: float
    """Draft tokens in a round, averaged over the rounds that drafted."""
    cost_ratio: float
    """c: seconds to propose one token over seconds of one plain token."""
    speedup: float
    """Over plain decoding. Rounds that proposed nothing count as one plain token each."""


def textbook_speedup(alpha: float, gamma: float, cost_ratio: float) -> float:
    """(1 − α^(γ+1)) / ((1 − α)(cγ + 1)); its limit (γ + 1) / (cγ + 1) at α = 1.

    alpha: 0 to 1. gamma: draft tokens in every round, 0 or more. cost_ratio: 0 or more.
    """
    return expected_tokens(alpha, gamma) / (cost_ratio * gamma + 1.0)


def expected_tokens(alpha: float, gamma: float) -> float:
    """Tokens of one round, bonus token included: (1 − α^(γ+1)) / (1 − α)."""
    if alpha >= 1.0:
        return gamma + 1.0
    return float((1.0 - alpha ** (gamma + 1.0)) / (1.0 - alpha))


def chance_by_position(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float | None, ...]:
    """For each draft position the chance of acceptance given that all positions before were.

    accepted, drafted: counts by position as in `Speculation`. A token was looked at when the one
    before it had been accepted. Where drafts differ in length this reads a draft that ended fully
    accepted as one that was looked at, bounded by how many tokens were drafted there; None where
    nothing was looked at.
    """
    chances: list[float | None] = []
    for position, right in enumerate(accepted):
        seen = drafted[position] if position < len(drafted) else right
        if position:
            seen = min(seen, accepted[position - 1])
        chances.append(right / seen if seen else None)
    return tuple(chances)


def predict(total: Speculation, plain_token_s: float) -> Prediction | None:
    """The prediction for these totals; None where nothing was drafted or the time is unknown.

    plain_token_s: seconds of one plain token on the same prompts.
    """
    drafting_rounds = total.drafted_per_position[0] if total.drafted_per_position else 0
    if not drafting_rounds or not total.drafted or plain_token_s <= 0:
        return None
    alpha = _alpha(total)
    gamma = total.drafted / drafting_rounds
    cost_ratio = total.propose_s / total.drafted / plain_token_s
    tokens = drafting_rounds * expected_tokens(alpha, gamma)
    cost = drafting_rounds * (cost_ratio * gamma + 1.0)
    plain_rounds = max(0, total.rounds - drafting_rounds)
    return Prediction(alpha, gamma, cost_ratio, (plain_rounds + tokens) / (plain_rounds + cost))


def _alpha(total: Speculation) -> float:
    accepted = total.accepted_per_position
    looked_at = 0
    for position, drafted in enumerate(total.drafted_per_position):
        before = accepted[position - 1] if 0 < position <= len(accepted) else 0
        looked_at += drafted if position == 0 else min(drafted, before)
    return min(1.0, total.accepted / looked_at) if looked_at else 0.0
