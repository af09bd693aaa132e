"""The fixed policy: caps, and n-gram drafts cut where they become unlikely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.decoding.protocols import NO_DRAFT, Draft


class Stating:
    """Proposes tokens with given confidences."""

    def __init__(self, confidences: Sequence[float], match_length: int) -> None:
        self._confidences = tuple(confidences)
        self._match_length = match_length

    name = "stating"

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def propose(self, max_tokens: int) -> Draft:
        tokens = tuple(range(len(self._confidences)))
        return Draft(tokens, self.name, self._confidences, self._match_length).first(max_tokens)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        """Nothing to learn."""


@pytest.mark.parametrize(
    ("confidences", "kept"),
    [((0.9, 0.9, 0.9), 3), ((0.9, 0.6, 0.9, 0.9), 2), ((0.4, 1.0), 0), ((), 0)],
)
def test_an_ngram_draft_is_cut_where_its_product_falls_below_one_half(
    confidences: tuple[float, ...], kept: int
) -> None:
    draft = FixedPolicy(Stating(confidences, match_length=3)).propose(16)
    assert len(draft) == len(draft.confidences) == kept


def test_a_model_has_stopped_by_itself() -> None:
    assert len(FixedPolicy(Stating((0.6,) * 8, match_length=0)).propose(16)) == 8


def test_caps_hold_together() -> None:
    sure = Stating((1.0,) * 30, match_length=9)
    assert len(FixedPolicy(sure, draft_max=7).propose(16)) == 7
    assert len(FixedPolicy(sure, draft_max=7).propose(4)) == 4
    assert FixedPolicy(sure, draft_max=7, draft_min=5).propose(4) is NO_DRAFT


def test_plain_never_proposes() -> None:
    assert PlainPolicy().propose(16) is NO_DRAFT
