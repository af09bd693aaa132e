"""The simple policies: no drafter, or one drafter with a fixed cap."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter, Round


class PlainPolicy:
    """Never proposes: plain decoding."""

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing depends on the prefix."""

    def propose(self, max_tokens: int) -> Draft:
        return NO_DRAFT

    def observe(self, outcome: Round) -> None:
        """Nothing to learn."""


class FixedPolicy:
    """Takes what one drafter proposes, up to `draft_max` tokens, as long as it is likely enough."""

    def __init__(
        self,
        drafter: Drafter,
        draft_max: int = 16,
        draft_min: int = 0,
        *,
        min_confidence: float = 0.5,
    ) -> None:
        """draft_min: a shorter draft is dropped, 0 keeps all; one with drawn tokens is kept at any
        length, since they themselves decided how long it is. min_confidence: drafts from n-gram
        matches are cut where the product of their confidences falls below; a draft model has
        stopped by its own p_min.
        """
        self._drafter = drafter
        self._draft_max = draft_max
        self._draft_min = draft_min
        self._min_confidence = min_confidence

    def begin(self, tokens: Sequence[int]) -> None:
        self._drafter.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        draft = self._drafter.propose(min(max_tokens, self._draft_max))
        if draft.is_drawn:
            return draft
        if draft.match_length:
            draft = draft.first(_likely(draft.confidences, self._min_confidence))
        return draft if draft.tokens and len(draft) >= self._draft_min else NO_DRAFT

    def observe(self, outcome: Round) -> None:
        self._drafter.observe(outcome.tokens, outcome.accepted)


def _likely(confidences: Sequence[float], least: float) -> int:
    """How many tokens are kept together with at least this probability."""
    product = 1.0
    for count, confidence in enumerate(confidences):
        product *= confidence
        if product < least:
            return count
    return len(confidences)
