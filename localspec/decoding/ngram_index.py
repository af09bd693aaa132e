"""Where each n-gram of a conversation occurred before, kept up to date token by token."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.prefix import common_prefix

LENGTHS = (1, 2, 3, 4, 6, 9, 14)
"""Lengths of the indexed n-grams; a match between two of them is found as the shorter one."""

LONGEST_MATCH = 64
"""Tokens up to which the length of a match is measured."""

_MASK = 2**64 - 1
_BASE = 0x9E3779B97F4A7C15


class NgramIndex:
    """The tokens of one conversation and, for every end of an n-gram, its previous occurrence.

    An *end* e is the number of tokens up to and including the n-gram; the token that followed it
    is tokens[e]. Appending a token costs a few dictionary operations whatever the length of the
    conversation, and a changed tail is taken back exactly as it was put in.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        # Polynomial hashes of all prefixes: the hash of any n-gram is a difference of two. A
        # collision of 64 bits could only cost a bad proposal.
        self._hashes: list[int] = [0]
        self._newest: tuple[dict[int, int], ...] = tuple({} for _ in LENGTHS)
        self._previous: tuple[list[int], ...] = tuple([0] for _ in LENGTHS)
        powers = [pow(_BASE, length, 2**64) for length in LENGTHS]
        self._levels = tuple(zip(LENGTHS, powers, self._newest, self._previous, strict=True))

    def __len__(self) -> int:
        return len(self.tokens)

    def replace(self, tokens: Sequence[int]) -> int:
        """Make the conversation `tokens`, keeping the common prefix. Returns its length."""
        common = common_prefix(self.tokens, tokens)
        self.truncate(common)
        for token in tokens[common:]:
            self.append(token)
        return common

    def append(self, token: int) -> None:
        self.tokens.append(token)
        hashes = self._hashes
        end = len(hashes)
        total = (hashes[-1] * _BASE + token + 1) & _MASK
        hashes.append(total)
        for length, power, newest, previous in self._levels:
            if end < length:
                previous.append(0)
                continue
            key = (total - hashes[end - length] * power) & _MASK
            previous.append(newest.get(key, 0))
            newest[key] = end

    def truncate(self, n_tokens: int) -> None:
        """Forget everything after the first `n_tokens` tokens."""
        hashes = self._hashes
        while len(self.tokens) > n_tokens:
            end = len(self.tokens)
            total = hashes[end]
            for length, power, newest, previous in self._levels:
                before = previous.pop()
                if end < length:
                    continue
                key = (total - hashes[end - length] * power) & _MASK
                if before:
                    newest[key] = before
                else:
                    del newest[key]
            hashes.pop()
            self.tokens.pop()

    def occurrences(self, level: int, limit: int) -> list[int]:
        """Earlier ends of the n-gram of LENGTHS[level] tokens that ends the conversation.

        The most recent first, at most `limit`; empty when it never occurred before.
        """
        previous = self._previous[level]
        ends: list[int] = []
        end = previous[-1]
        while end and len(ends) < limit:
            ends.append(end)
            end = previous[end]
        return ends

    def match_length(self, end: int, at_least: int) -> int:
        """How many tokens before `end` equal those at the end of the conversation.

        Counted up to LONGEST_MATCH; `at_least` of them are known to be equal.
        """
        tokens = self.tokens
        n_tokens = len(tokens)
        most = min(LONGEST_MATCH, end)
        if tokens[end - most : end] == tokens[n_tokens - most :]:
            return most
        length = at_least
        while length < most and tokens[end - 1 - length] == tokens[n_tokens - 1 - length]:
            length += 1
        return length

    def longest(self) -> int:
        """The level of the longest n-gram at the end that occurred before; -1 when none did."""
        for level in range(len(LENGTHS) - 1, -1, -1):
            if self._previous[level][-1]:
                return level
        return -1
