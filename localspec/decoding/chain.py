"""Several drafters as one: the first that has something, or the most promising."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter


class _Several:
    """What all combinations share: every drafter sees every token."""

    def __init__(self, drafters: Sequence[Drafter], name: str) -> None:
        self._drafters = tuple(drafters)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def begin(self, tokens: Sequence[int]) -> None:
        for drafter in self._drafters:
            drafter.begin(tokens)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        for drafter in self._drafters:
            drafter.observe(tokens, accepted)


class ChainDrafter(_Several):
    """Asks its drafters in turn and takes the first proposal.

    The draft keeps the source of the drafter that made it. Those after it are not asked, so a
    draft model behind an n-gram drafter costs nothing while the text repeats itself.
    """

    def __init__(self, drafters: Sequence[Drafter], name: str = "chain") -> None:
        super().__init__(drafters, name)

    def propose(self, max_tokens: int) -> Draft:
        for drafter in self._drafters:
            draft = drafter.propose(max_tokens)
            if draft.tokens:
                return draft
        return NO_DRAFT


class BestDrafter(_Several):
    """Takes the proposal with the largest expected number of accepted tokens, by confidence.

    For cheap drafters that state confidences; ties go to the earlier one. `--draft ngram` is this
    over the n-gram and the lookup drafter. A draft whose tokens were drawn is taken as it stands:
    to weigh it by what was drawn would change its distribution.
    """

    def __init__(self, drafters: Sequence[Drafter], name: str = "ngram") -> None:
        super().__init__(drafters, name)

    def propose(self, max_tokens: int) -> Draft:
        best, most = NO_DRAFT, 0.0
        for drafter in self._drafters:
            draft = drafter.propose(max_tokens)
            if draft.is_drawn:
                return draft
            expected = expected_accepted(draft)
            if expected > most:
                best, most = draft, expected
        return best


def expected_accepted(draft: Draft) -> float:
    """Accepted tokens to expect, if the confidences of `draft` are right."""
    expected, reached = 0.0, 1.0
    for confidence in draft.confidences:
        reached *= confidence
        expected += reached
    return expected
