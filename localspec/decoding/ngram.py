"""The n-gram drafter: the longest suffix seen before in the conversation, and its sequel."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.ngram_index import LENGTHS, LONGEST_MATCH, NgramIndex
from localspec.decoding.protocols import NO_DRAFT, Draft

# How sure the sequel of a match is that occurred once, by match length: measured on answers of
# small models to prompts about code, prose, tables and lists. Between the lengths it is linear.
_ONCE = {
    1: 0.26,
    2: 0.48,
    3: 0.64,
    4: 0.72,
    5: 0.78,
    8: 0.82,
    14: 0.88,
    20: 0.9,
    32: 0.94,
    48: 0.97,
}
# Where occurrences disagree, the share of the best sequel is too optimistic for short matches.
_DISAGREED = (0.0, 0.35, 0.75, 0.9, 0.92)
# An occurrence whose context matches one token less than the longest has this share of its vote.
_SHORTER = 0.7
_AGREEMENT_POWER = 1.5
_OCCURRENCES = 12


class NgramDrafter:
    """Proposes what most often followed the longest matching suffix, the recent first.

    The walk keeps the set of occurrences that agree with what it has proposed so far, so each next
    token is the most frequent one given all of the match and the draft before it: a greedy path
    through the suffix tree of the conversation, as in SuffixDecoding (arXiv:2411.04975), without
    building the tree. Occurrences that match less count less. Work per round is bounded, whatever
    the length of the conversation.
    """

    def __init__(self, *, min_confidence: float = 0.1) -> None:
        """min_confidence: the draft ends where the product of its confidences falls below. Low,
        for the policy decides how much of it is worth verifying.
        """
        self._index = NgramIndex()
        self._unseen: list[int] = []
        """Kept tokens that the index does not have yet: it takes them in when it is asked."""
        self._min_confidence = min_confidence
        self._once = _interpolated(_ONCE)
        self._votes = [_SHORTER**missing for missing in range(LONGEST_MATCH + 1)]

    @property
    def name(self) -> str:
        return "ngram"

    def begin(self, tokens: Sequence[int]) -> None:
        self._take_in()
        self._index.replace(tokens)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        self._unseen += tokens

    def _take_in(self) -> None:
        append = self._index.append
        for token in self._unseen:
            append(token)
        self._unseen.clear()

    def propose(self, max_tokens: int) -> Draft:
        self._take_in()
        index = self._index
        longest = index.longest()
        if longest < 0 or max_tokens < 1:
            return NO_DRAFT
        # The next shorter n-gram adds occurrences that confirm or contradict; single tokens say
        # too little to be asked beside anything longer.
        level = longest - 1 if longest > 1 else longest
        ends = index.occurrences(level, _OCCURRENCES)
        best_end = index.occurrences(longest, 1)[0]
        if best_end not in ends:
            ends.append(best_end)
        at_least = LENGTHS[level]
        lengths = [index.match_length(end, at_least) for end in ends]
        match_length = max(lengths)
        votes = [self._votes[match_length - length] for length in lengths]
        tokens, confidences = self._follow(ends, votes, match_length, max_tokens)
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), self.name, tuple(confidences), match_length)

    def _follow(
        self, ends: list[int], votes: list[float], match_length: int, max_tokens: int
    ) -> tuple[list[int], list[float]]:
        """Tokens and confidences of the greedy path from the occurrences `ends`."""
        held = self._index.tokens
        n_held = len(held)
        tokens: list[int] = []
        confidences: list[float] = []
        product = 1.0
        weight = sum(votes)
        for length in range(match_length, match_length + max_tokens):
            # An occurrence that reaches the end of the conversation goes on into the draft itself:
            # that is how a repeating pattern continues.
            followers = [held[end] if end < n_held else tokens[end - n_held] for end in ends]
            token = followers[0]
            once = self._once[min(length, LONGEST_MATCH)]
            if followers.count(token) == len(followers):
                agreed = weight if weight > 1.0 else 1.0
                confidence = 1.0 - (1.0 - once) / agreed**_AGREEMENT_POWER
                ends = [end + 1 for end in ends]
            else:
                shares: dict[int, float] = {}
                for follower, vote in zip(followers, votes, strict=True):
                    shares[follower] = shares.get(follower, 0.0) + vote
                # Ties go to the most recent follower, which stands first.
                token = max(shares, key=shares.__getitem__)
                best = shares[token]
                confidence = best / weight * _DISAGREED[min(length, len(_DISAGREED) - 1)]
                kept = [at for at, follower in enumerate(followers) if follower == token]
                ends = [ends[at] + 1 for at in kept]
                votes = [votes[at] for at in kept]
                weight = best
            product *= confidence
            if product < self._min_confidence:
                break
            tokens.append(token)
            confidences.append(confidence)
        return tokens, confidences


def _interpolated(known: dict[int, float]) -> list[float]:
    """Entry n: the value at n, linear between the known places, flat beyond them."""
    places = sorted(known)
    values = [0.0] * (LONGEST_MATCH + 1)
    for place in range(1, LONGEST_MATCH + 1):
        left = max(at for at in places if at <= place)
        right = min((at for at in places if at > place), default=left)
        share = (place - left) / (right - left) if right > left else 0.0
        values[place] = known[left] + share * (known[right] - known[left])
    return values
