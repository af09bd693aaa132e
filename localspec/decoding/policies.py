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
    """Takes whatever one drafter proposes, up to `draft_max` tokens.

    draft_min: a shorter draft is dropped, 0 keeps all.
    """

    def __init__(self, drafter: Drafter, draft_max: int = 16, draft_min: int = 0) -> None:
        self._drafter = drafter
        self._draft_max = draft_max
        self._draft_min = draft_min

    def begin(self, tokens: Sequence[int]) -> None:
        self._drafter.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        draft = self._drafter.propose(min(max_tokens, self._draft_max))
        return draft if len(draft) >= self._draft_min else NO_DRAFT

    def observe(self, outcome: Round) -> None:
        self._drafter.observe(outcome.tokens, outcome.accepted)
