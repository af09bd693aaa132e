"""n-gram statistics in memory: which tokens followed an n-gram, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Ngram = tuple[int, ...]

NGRAM_MIN = 1
NGRAM_MAX = 4
"""Lengths that llama.cpp keeps in context and dynamic caches (common/ngram-cache.h)."""
NGRAM_STATIC = 2
"""The length in static caches."""
DEFAULT_MAX_NGRAMS = 200_000
"""About 6 MB on disk and a quarter of a second to load."""
MAX_COUNT = 2**31 - 1
"""Counts are int32 in the file; they stop here."""

_NOTHING: Mapping[int, int] = {}
# Evicting makes room for many n-grams at once, so that its cost is spread over as many insertions.
_KEEP_SHARE = 0.8


class LookupCache:
    """n-gram -> follower -> count, bounded in size; the least useful n-grams go first.

    Iteration is from the longest untouched to the newest, and files keep that order, so that among
    equally useful n-grams the oldest goes first even in later sessions.
    """

    def __init__(self, max_ngrams: int = DEFAULT_MAX_NGRAMS) -> None:
        self.max_ngrams = max_ngrams
        self._ngrams: dict[Ngram, dict[int, int]] = {}

    def __len__(self) -> int:
        """Number of n-grams."""
        return len(self._ngrams)

    def __iter__(self) -> Iterator[tuple[Ngram, Mapping[int, int]]]:
        return iter(self._ngrams.items())

    def __eq__(self, other: object) -> bool:
        """Same n-grams with the same counts, in whatever order."""
        return isinstance(other, LookupCache) and self._ngrams == other._ngrams

    __hash__ = None  # type: ignore[assignment]

    def followers(self, ngram: Ngram) -> Mapping[int, int]:
        """Token -> count after `ngram`; empty when it was never seen. Not to be changed."""
        return self._ngrams.get(ngram, _NOTHING)

    def add(self, ngram: Ngram, token: int, count: int = 1) -> None:
        """`token` followed `ngram` another `count` times. Does not evict."""
        followers = self._ngrams.get(ngram)
        if followers is None:
            self._ngrams[ngram] = {token: min(count, MAX_COUNT)}
        else:
            followers[token] = min(followers.get(token, 0) + count, MAX_COUNT)

    def learn(
        self,
        tokens: Sequence[int],
        first_new: int = 0,
        *,
        ngram_min: int = NGRAM_MIN,
        ngram_max: int = NGRAM_MAX,
    ) -> None:
        """Count every n-gram whose follower is one of tokens[first_new:].

        Those before are context that was counted earlier: n-grams that span two calls are counted
        as long as at least `ngram_max` tokens of context are given.
        """
        ngrams = self._ngrams
        for position in range(max(first_new, ngram_min), len(tokens)):
            token = tokens[position]
            for length in range(ngram_min, min(ngram_max, position) + 1):
                ngram = tuple(tokens[position - length : position])
                followers = ngrams.get(ngram)
                if followers is None:
                    ngrams[ngram] = {token: 1}
                else:
                    followers[token] = min(followers.get(token, 0) + 1, MAX_COUNT)
        if len(ngrams) > self.max_ngrams:
            self.evict()

    def merge(self, newer: LookupCache) -> None:
        """Add the counts of `newer`; its n-grams count as the most recently touched."""
        ngrams = self._ngrams
        for ngram, added in newer._ngrams.items():
            followers = ngrams.pop(ngram, None)
            if followers is None:
                ngrams[ngram] = dict(added)
                continue
            for token, count in added.items():
                followers[token] = min(followers.get(token, 0) + count, MAX_COUNT)
            ngrams[ngram] = followers
        if len(ngrams) > self.max_ngrams:
            self.evict()

    def evict(self) -> None:
        """Drop the least useful n-grams until four fifths of `max_ngrams` are left."""
        keep = int(self.max_ngrams * _KEEP_SHARE)
        excess = len(self._ngrams) - keep
        if excess <= 0:
            return
        # The sort is stable: among equals the oldest stand first.
        ranked = sorted(self._ngrams, key=lambda ngram: usefulness(self._ngrams[ngram]))
        for ngram in ranked[:excess]:
            del self._ngrams[ngram]

    def clear(self) -> None:
        self._ngrams.clear()


def usefulness(followers: Mapping[int, int]) -> float:
    """How many right proposals an n-gram with these followers stands for.

    The best follower's count times the share of cases in which it is right: an n-gram seen twice
    with one sequel is worth 2, one seen ten times with ten sequels 0.1.
    """
    best = max(followers.values())
    return best * best / sum(followers.values())
