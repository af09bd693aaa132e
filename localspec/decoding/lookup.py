"""The lookup drafter: n-gram statistics of this session, of earlier ones, and of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localspec.decoding.lookup_cache import DEFAULT_MAX_NGRAMS, NGRAM_MAX, LookupCache
from localspec.decoding.protocols import NO_DRAFT, Draft

# How sure a continuation is that nothing is known about, by length of the n-gram.
_PRIOR = (0.0, 0.0, 0.25, 0.45, 0.75)
_PRIOR_WEIGHT = 1.5
# What was said in this session tells more about the next token than what was said in others, and
# the user's own sessions more than a corpus.
_CONTEXT_WEIGHT = 1.0
_DYNAMIC_WEIGHT = 0.7
_STATIC_WEIGHT = 0.4
_LEARN_AFTER = 8
"""Kept tokens that are learned at once: the newest ones are the n-gram drafter's to remember."""


class LookupDrafter:
    """Proposes the most frequent follower of the longest n-gram known to any of three caches.

    `context` learns every kept token, with n-grams that span rounds, and is what a store adds to
    the dynamic cache on disk; the text of prompts is not learned, so it never reaches the disk.
    """

    def __init__(
        self,
        *,
        dynamic: LookupCache | None = None,
        static: LookupCache | None = None,
        min_confidence: float = 0.1,
        max_ngrams: int = DEFAULT_MAX_NGRAMS,
    ) -> None:
        """min_confidence: the draft ends where the product of its confidences falls below.

        max_ngrams: bound of `context`.
        """
        self._context = LookupCache(max_ngrams)
        self.dynamic = dynamic if dynamic is not None else LookupCache(max_ngrams)
        self.static = static if static is not None else LookupCache()
        self._min_confidence = min_confidence
        self._tail: list[int] = []
        self._n_learned = 0
        """Tokens of the tail that `context` knows."""

    @property
    def context(self) -> LookupCache:
        """What was said in this session, up to the last kept token."""
        self._learn()
        return self._context

    @property
    def name(self) -> str:
        return "lookup"

    def begin(self, tokens: Sequence[int]) -> None:
        """The last of `tokens` is the answer's first: it is learned, what stands before is not."""
        self._learn()
        self._tail = list(tokens[-NGRAM_MAX - 1 :])
        self._n_learned = len(self._tail) - 1

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        self._tail.extend(tokens)
        if len(self._tail) - self._n_learned >= _LEARN_AFTER:
            self._learn()

    def _learn(self) -> None:
        tail = self._tail
        self._context.learn(tail, self._n_learned)
        del tail[: max(0, len(tail) - NGRAM_MAX)]
        self._n_learned = len(tail)

    def saved(self) -> None:
        """What `context` holds is on disk now: count it as dynamic and start afresh."""
        self.dynamic.merge(self.context)
        self.context.clear()

    def propose(self, max_tokens: int) -> Draft:
        tail = self._tail[-NGRAM_MAX:]
        tokens: list[int] = []
        confidences: list[float] = []
        product = 1.0
        match_length = 0
        while len(tokens) < max_tokens:
            found = self._best_follower(tail)
            if found is None:
                break
            token, confidence, length = found
            product *= confidence
            if product < self._min_confidence:
                break
            if not tokens:
                match_length = length
            tokens.append(token)
            confidences.append(confidence)
            tail.append(token)
            if len(tail) > NGRAM_MAX:
                del tail[0]
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), self.name, tuple(confidences), match_length)

    def _best_follower(self, tail: list[int]) -> tuple[int, float, int] | None:
        """Token, confidence and n-gram length of the best guess after `tail`."""
        for length in range(len(tail), 0, -1):
            ngram = tuple(tail[len(tail) - length :])
            known = [
                (followers, weight)
                for followers, weight in (
                    (self._context.followers(ngram), _CONTEXT_WEIGHT),
                    (self.dynamic.followers(ngram), _DYNAMIC_WEIGHT),
                    (self.static.followers(ngram), _STATIC_WEIGHT),
                )
                if followers
            ]
            if known:
                token, best, total = _heaviest(known)
                confidence = (best + _PRIOR_WEIGHT * _PRIOR[length]) / (total + _PRIOR_WEIGHT)
                return token, confidence, length
        return None


def _heaviest(known: list[tuple[Mapping[int, int], float]]) -> tuple[int, float, float]:
    """The token with the most weighted sightings, their weight, and that of all tokens."""
    if len(known) == 1:
        followers, weight = known[0]
        token = max(followers, key=followers.__getitem__)
        return token, weight * followers[token], weight * sum(followers.values())
    weights: dict[int, float] = {}
    for followers, weight in known:
        for token, count in followers.items():
            weights[token] = weights.get(token, 0.0) + weight * count
    token = max(weights, key=weights.__getitem__)
    return token, weights[token], sum(weights.values())
