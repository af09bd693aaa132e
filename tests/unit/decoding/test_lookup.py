"""The lookup drafter: what it learns, from which cache it speaks, how sure it is."""

from __future__ import annotations

from localspec.decoding.lookup import LookupDrafter
from localspec.decoding.lookup_cache import LookupCache


def learned(*tokens: int) -> LookupCache:
    cache = LookupCache()
    cache.learn(tokens)
    return cache


def test_every_kept_token_is_learned_with_ngrams_that_span_rounds() -> None:
    drafter = LookupDrafter()
    drafter.begin([90, 91, 92, 93, 1])
    for kept in ([2, 3], [4], [5, 6, 7], [8]):
        drafter.observe(kept, len(kept) - 1)
    whole = LookupCache()
    whole.learn([90, 91, 92, 93, 1, 2, 3, 4, 5, 6, 7, 8], 4)
    assert drafter.context == whole
    assert drafter.context.followers((3, 4)) == {5: 1}
    assert drafter.context.followers((2, 3, 4, 5)) == {6: 1}


def test_the_text_of_a_prompt_is_not_learned() -> None:
    drafter = LookupDrafter()
    drafter.begin([1, 2, 3, 4, 5, 6, 7])
    assert {ngram[-1] for ngram, _ in drafter.context} == {6}
    assert drafter.context.followers((1, 2)) == {}


def test_each_of_the_three_caches_can_speak() -> None:
    for drafter in (
        LookupDrafter(dynamic=learned(1, 2, 3, 4, 5), min_confidence=0.2),
        LookupDrafter(static=learned(1, 2, 3, 4, 5), min_confidence=0.2),
    ):
        drafter.begin([1, 2])
        assert drafter.propose(2).tokens == (3, 4)
    drafter = LookupDrafter()
    drafter.begin([1])
    drafter.observe([2, 3, 4, 9, 10, 11, 12, 1, 2], 0)
    assert drafter.propose(2).tokens == (3, 4)


def test_the_longest_known_ngram_decides() -> None:
    dynamic = LookupCache()
    dynamic.add((3,), 5, 50)
    dynamic.add((2, 3), 6)
    drafter = LookupDrafter(dynamic=dynamic, min_confidence=0.1)
    drafter.begin([1, 2, 3])
    draft = drafter.propose(1)
    assert (draft.tokens, draft.match_length) == ((6,), 2)


def test_this_session_weighs_more_than_others() -> None:
    drafter = LookupDrafter(dynamic=learned(1, 2, 8), min_confidence=0.1)
    drafter.begin([1])
    drafter.observe([2, 9, 5, 10, 11, 12, 13, 1, 2], 0)
    assert drafter.propose(1).tokens == (9,)


def test_every_kept_token_is_in_the_cache_whoever_looks_and_whenever() -> None:
    tokens = [1, 2, 3, 1, 2, 4, 7, 8, 9, 1, 2, 3, 5, 6, 1, 2, 3]
    at_once = LookupCache()
    at_once.learn(tokens, 1)
    for chunk in (1, 3, 5, 16):
        drafter = LookupDrafter()
        drafter.begin(tokens[:1])
        for start in range(1, len(tokens), chunk):
            drafter.observe(tokens[start : start + chunk], 0)
        assert drafter.context == at_once


def test_confidence_follows_the_counts() -> None:
    often, once = LookupCache(), LookupCache()
    often.add((1, 2), 3, 20)
    once.add((1, 2), 3, 1)
    confidences = []
    for cache in (often, once):
        drafter = LookupDrafter(dynamic=cache, min_confidence=0.1)
        drafter.begin([1, 2])
        confidences.append(drafter.propose(1).confidences[0])
    assert confidences[0] > confidences[1] > 0.0


def test_an_unknown_context_gives_no_draft() -> None:
    drafter = LookupDrafter(dynamic=learned(1, 2, 3))
    drafter.begin([50])
    assert drafter.propose(4).tokens == ()
    drafter.begin([])
    assert drafter.propose(4).tokens == ()


def test_what_was_saved_is_dynamic_from_then_on() -> None:
    drafter = LookupDrafter()
    drafter.begin([1])
    drafter.observe([2, 3], 0)
    drafter.saved()
    assert len(drafter.context) == 0
    assert drafter.dynamic.followers((1, 2)) == {3: 1}
    drafter.observe([4], 0)
    assert drafter.context.followers((2, 3)) == {4: 1}
