"""A policy in a slot: what it learns when passes are shared with other answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Policy, Round

_FULL = 1.5
"""How much longer a pass twice as wide may take while there is idle compute to spend on drafts."""


class SlotPolicy:
    """Passes rounds on. The time of a shared pass tells nothing about a width of this answer alone,
    so the policy is told what such a width usually takes and learns from the tokens only."""

    def __init__(self, policy: Policy, costs: CostCurve | None) -> None:
        self._policy = policy
        self._costs = costs
        self.n_sharing = 1
        """Answers in the pass of the latest round, this one included."""

    @property
    def is_shared(self) -> bool:
        """Whether the pass of the latest round had other answers in it."""
        return self.n_sharing > 1

    def begin(self, tokens: Sequence[int]) -> None:
        self._policy.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        if self._is_batch_full():
            return NO_DRAFT
        return self._policy.propose(max_tokens)

    def observe(self, outcome: Round) -> None:
        if self.is_shared and self._costs is not None:
            usual_s = self._costs.seconds(1 + outcome.drafted)
            outcome = replace(outcome, verify_s=usual_s, rollback_s=0.0)
        self._policy.observe(outcome)

    def _is_batch_full(self) -> bool:
        """Whether so many answers use all that the device has: drafts would only make them wait,
        and asking for them takes time too."""
        if self._costs is None or not self.is_shared:
            return False
        width = self.n_sharing
        return self._costs.seconds(2 * width) > _FULL * self._costs.seconds(width)
