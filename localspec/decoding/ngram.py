"""The n-gram drafter: the longest suffix seen before in the conversation, and its sequel."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.ngram_index import LENGTHS, NgramIndex
from localspec.decoding.protocols import NO_DRAFT, Draft

# How sure a continuation is that was seen once, by match length; more sightings raise it.
_PRIOR = (0.0, 0.25, 0.45, 0.6, 0.7, 0.75, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.91, 0.92, 0.93, 0.94)
_PRIOR_WEIGHT = 2.0
_OCCURRENCES = 12


class NgramDrafter:
    """Proposes what most often followed the longest matching suffix, the recent first.

    The walk keeps the set of occurrences that agree with what it has proposed so far, so each next
    token is the most frequent one given all of the match and the draft before it: a greedy path
    through the suffix tree of the conversation, as in SuffixDecoding (arXiv:2411.04975), without
    building the tree. Work per round is bounded, whatever the length of the conversation.
    """

    def __init__(self, *, min_confidence: float = 0.3) -> None:
        """min_confidence: the draft ends where the product of its confidences falls below."""
        self._index = NgramIndex()
        self._min_confidence = min_confidence

    @property
    def name(self) -> str:
        return "ngram"

    def begin(self, tokens: Sequence[int]) -> None:
        self._index.replace(tokens)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        append = self._index.append
        for token in tokens:
            append(token)

    def propose(self, max_tokens: int) -> Draft:
        level = self._index.longest()
        if level < 0 or max_tokens < 1:
            return NO_DRAFT
        ends = self._index.occurrences(level, _OCCURRENCES)
        match_length = LENGTHS[level]
        tokens, confidences = self._follow(ends, match_length, max_tokens)
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), self.name, tuple(confidences), match_length)

    def _follow(
        self, ends: list[int], match_length: int, max_tokens: int
    ) -> tuple[list[int], list[float]]:
        """Tokens and confidences of the greedy path from the occurrences `ends`."""
        held = self._index.tokens
        n_held = len(held)
        tokens: list[int] = []
        confidences: list[float] = []
        product = 1.0
        most = len(_PRIOR) - 1
        while len(tokens) < max_tokens:
            # An occurrence that reaches the end of the conversation goes on into the draft itself:
            # that is how a repeating pattern continues.
            followers = [held[end] if end < n_held else tokens[end - n_held] for end in ends]
            total = len(followers)
            token, count = followers[0], total
            if total > 1:
                count = followers.count(token)
                if count * 2 < total:
                    # Ties go to the most recent follower, which `max` meets first.
                    token = max(followers, key=followers.count)
                    count = followers.count(token)
            prior = _PRIOR[min(match_length + len(tokens), most)]
            confidence = (count + _PRIOR_WEIGHT * prior) / (total + _PRIOR_WEIGHT)
            product *= confidence
            if product < self._min_confidence:
                break
            tokens.append(token)
            confidences.append(confidence)
            ends = (
                [end + 1 for end in ends]
                if count == total
                else [
                    end + 1
                    for end, follower in zip(ends, followers, strict=True)
                    if follower == token
                ]
            )
        return tokens, confidences
