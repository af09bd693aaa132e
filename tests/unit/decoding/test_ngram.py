"""The n-gram drafter: longest suffix, most frequent recent sequel, incremental index."""

from __future__ import annotations

from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.ngram_index import LENGTHS, NgramIndex
from localspec.decoding.prefix import common_prefix


def drafter(tokens: list[int], min_confidence: float = 0.05) -> NgramDrafter:
    made = NgramDrafter(min_confidence=min_confidence)
    made.begin(tokens)
    return made


def test_the_longest_match_decides_over_more_frequent_shorter_ones() -> None:
    tokens = [1, 2, 3, 9, 5, 3, 7, 5, 3, 7, 5, 3, 7, 1, 2, 3]
    draft = drafter(tokens).propose(1)
    assert draft.tokens == (9,)
    assert draft.match_length == 3


def test_the_most_frequent_sequel_wins_and_the_recent_one_in_a_tie() -> None:
    assert drafter([1, 2, 8, 1, 2, 8, 1, 2, 9, 1, 2]).propose(1).tokens == (8,)
    assert drafter([4, 1, 2, 8, 5, 1, 2, 9, 6, 1, 2]).propose(1).tokens == (9,)


def test_later_tokens_follow_only_occurrences_that_agree_with_the_draft() -> None:
    tokens = [1, 2, 8, 3, 1, 2, 8, 3, 1, 2, 9, 4, 1, 2]
    assert drafter(tokens).propose(2).tokens == (8, 3)


def test_a_repeating_pattern_continues_beyond_the_end_of_the_text() -> None:
    assert drafter([1, 2, 3] * 3).propose(8).tokens == (1, 2, 3, 1, 2, 3, 1, 2)
    assert drafter([7, 7, 7]).propose(5).tokens == (7, 7, 7, 7, 7)


def test_confidence_grows_with_match_length_and_with_agreement() -> None:
    short = drafter([1, 2, 3, 9, 8, 2]).propose(1)
    long = drafter([1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 4, 5, 6]).propose(1)
    assert short.confidences[0] < long.confidences[0]
    split = drafter([1, 2, 8, 1, 2, 9, 1, 2]).propose(1)
    agreed = drafter([1, 2, 8, 1, 2, 8, 1, 2]).propose(1)
    assert split.confidences[0] < agreed.confidences[0]


def test_the_draft_ends_where_it_is_no_longer_sure() -> None:
    tokens = [*range(100, 140), 1, 2, *range(100, 104)]
    sure = drafter(tokens, 0.5).propose(16)
    bold = drafter(tokens, 0.01).propose(16)
    assert len(sure) < len(bold) == 16


def test_text_without_repetition_gives_no_draft() -> None:
    assert drafter(list(range(50))).propose(8).tokens == ()
    assert drafter([]).propose(8).tokens == ()
    assert drafter([1]).propose(8).tokens == ()
    assert drafter([1, 1, 1]).propose(0).tokens == ()


def test_observed_tokens_are_found_without_a_new_begin() -> None:
    made = drafter([1, 2, 3])
    made.observe([4, 5], 0)
    made.observe([1, 2], 1)
    assert made.propose(3).tokens == (3, 4, 5)


def test_an_index_that_went_back_is_the_index_of_what_is_left() -> None:
    index, fresh = NgramIndex(), NgramIndex()
    text = [1, 2, 1, 2, 1, 3, 1, 2, 1, 2, 1, 3, 4] * 4
    index.replace([*text, 5, 5, 1, 2, 1])
    assert index.replace([*text, 6]) == len(text)
    fresh.replace([*text, 6])
    assert index._newest == fresh._newest
    assert index._previous == fresh._previous
    assert index._hashes == fresh._hashes


def test_going_on_with_a_conversation_indexes_only_what_is_new() -> None:
    class Counting(NgramIndex):
        appended = 0

        def append(self, token: int) -> None:
            self.appended += 1
            super().append(token)

    index = Counting()
    index.replace(list(range(1000)))
    index.replace([*range(1000), 5, 6])
    assert index.appended == 1002


def test_occurrences_are_the_true_ones_the_recent_first() -> None:
    text = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2]
    index = NgramIndex()
    index.replace(text)
    for level, length in enumerate(LENGTHS):
        suffix = text[len(text) - length :]
        true = [
            end
            for end in range(len(text) - 1, length - 1, -1)
            if text[end - length : end] == suffix and length <= len(text)
        ]
        assert index.occurrences(level, 100) == true
        assert index.occurrences(level, 2) == true[:2]


def test_common_prefix_counts_equal_tokens_from_the_start() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 3, 4]) == 3
    assert common_prefix([1, 2, 3], [1, 9, 3]) == 1
    assert common_prefix([], [1]) == 0
