"""A policy in a slot: what it learns when passes are shared with other answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import Draft, Policy, Round


class SlotPolicy:
    """Passes rounds on. The time of a shared pass tells nothing about a width of this answer alone,
    so the policy is told what such a width usually takes and learns from the tokens only."""

    def __init__(self, policy: Policy, costs: CostCurve | None) -> None:
        self._policy = policy
        self._costs = costs
        self.is_shared = False
        """Whether the pass of the present round has other answers in it."""

    def begin(self, tokens: Sequence[int]) -> None:
        self._policy.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        return self._policy.propose(max_tokens)

    def observe(self, outcome: Round) -> None:
        if self.is_shared and self._costs is not None:
            usual_s = self._costs.seconds(1 + outcome.drafted)
            outcome = replace(outcome, verify_s=usual_s, rollback_s=0.0)
        self._policy.observe(outcome)
