"""What a slot drafts when other answers share its passes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Round
from localspec.engine.slot_policy import SlotPolicy

DRAFT = Draft((7, 8), "ngram")
STEEP = CostCurve({1: 0.01, 2: 0.02, 4: 0.04, 8: 0.08, 16: 0.16}, max_width=17)
FLAT = CostCurve({1: 0.02, 17: 0.023}, max_width=17)


class Always:
    """Proposes the same every round and remembers what it is told."""

    def __init__(self) -> None:
        self.seen: list[Round] = []

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing depends on the prefix."""

    def propose(self, max_tokens: int) -> Draft:
        return DRAFT

    def observe(self, outcome: Round) -> None:
        self.seen.append(outcome)


def test_a_full_batch_drafts_nothing_and_an_answer_alone_does() -> None:
    policy = SlotPolicy(Always(), STEEP)
    assert policy.propose(4) == DRAFT
    for sharing in (2, 4, 12):
        policy.n_sharing = sharing
        assert policy.propose(4) == NO_DRAFT
    policy.n_sharing = 1
    assert policy.propose(4) == DRAFT


def test_where_a_wider_pass_costs_little_a_shared_one_has_room_for_drafts() -> None:
    for costs in (FLAT, None):
        policy = SlotPolicy(Always(), costs)
        policy.n_sharing = 4
        assert policy.propose(4) == DRAFT


def test_the_time_of_a_shared_pass_is_not_learned() -> None:
    inner = Always()
    policy = SlotPolicy(inner, STEEP)
    outcome = Round((7,), 0, 1, "ngram", DRAFT, 0.001, verify_s=0.3, rollback_s=0.01)
    policy.observe(outcome)
    policy.n_sharing = 2
    policy.observe(outcome)
    assert [seen.verify_s for seen in inner.seen] == [0.3, pytest.approx(0.02)]
