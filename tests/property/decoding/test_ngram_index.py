"""The incremental index against a search of the whole text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.ngram_index import LENGTHS, LONGEST_MATCH, NgramIndex

TOKENS = st.lists(st.integers(0, 3), max_size=60)


def matching_ends(text: list[int], length: int) -> list[int]:
    """Earlier ends of the last `length` tokens, the recent first, by comparing every place."""
    if length > len(text):
        return []
    suffix = text[len(text) - length :]
    return [
        end for end in range(len(text) - 1, length - 1, -1) if text[end - length : end] == suffix
    ]


@given(st.lists(TOKENS, min_size=1, max_size=4), TOKENS)
def test_after_any_turns_it_finds_what_a_search_of_the_text_finds(
    turns: list[list[int]], tail: list[int]
) -> None:
    index = NgramIndex()
    for turn in turns:
        index.replace(turn)
    for token in tail:
        index.append(token)
    text = [*turns[-1], *tail]
    assert index.tokens == text
    for level, length in enumerate(LENGTHS):
        assert index.occurrences(level, 1000) == matching_ends(text, length)
    longest = index.longest()
    assert (longest >= 0) == bool(matching_ends(text, 1))
    if longest >= 0:
        for end in index.occurrences(longest, 5):
            length = index.match_length(end, LENGTHS[longest])
            assert text[end - length : end] == text[len(text) - length :]
            assert length in (LONGEST_MATCH, end) or (
                text[end - length - 1] != text[len(text) - length - 1]
            )


@given(TOKENS, st.integers(1, 20))
def test_a_draft_is_bounded_and_every_confidence_a_probability(
    text: list[int], max_tokens: int
) -> None:
    drafter = NgramDrafter(min_confidence=0.01)
    drafter.begin(text)
    draft = drafter.propose(max_tokens)
    assert len(draft.tokens) == len(draft.confidences) <= max_tokens
    assert all(0.0 < confidence <= 1.0 for confidence in draft.confidences)
    assert set(draft.tokens) <= set(text)
    if draft.tokens:
        # Of the longest matches and those one length shorter, some went on with what is proposed.
        index = NgramIndex()
        index.replace(text)
        asked = LENGTHS[max(index.longest() - 1, 0)]
        assert any(text[end] == draft.tokens[0] for end in matching_ends(text, asked))
