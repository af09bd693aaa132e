"""n-gram statistics in memory: spans, merging, bounds, eviction."""

from __future__ import annotations

from localspec.decoding.lookup_cache import MAX_COUNT, LookupCache, usefulness


def contents(cache: LookupCache) -> dict[tuple[int, ...], dict[int, int]]:
    return {ngram: dict(followers) for ngram, followers in cache}


def test_every_ngram_of_one_to_four_tokens_is_counted_with_its_follower() -> None:
    cache = LookupCache()
    cache.learn([1, 2, 1, 2, 3])
    assert contents(cache) == {
        (1,): {2: 2},
        (2,): {1: 1, 3: 1},
        (1, 2): {1: 1, 3: 1},
        (2, 1): {2: 1},
        (1, 2, 1): {2: 1},
        (2, 1, 2): {3: 1},
        (1, 2, 1, 2): {3: 1},
    }


def test_learning_in_pieces_counts_the_ngrams_that_span_them() -> None:
    tokens = [5, 1, 2, 3, 1, 2, 4, 1, 2, 3, 9, 9, 1]
    whole, pieces = LookupCache(), LookupCache()
    whole.learn(tokens)
    for end in (1, 2, 5, 6, 10, 13):
        first = {1: 0, 2: 1, 5: 2, 6: 5, 10: 6, 13: 10}[end]
        pieces.learn(tokens[:end], first)
    assert pieces == whole


def test_merging_adds_counts_and_leaves_the_other_alone() -> None:
    left, right = LookupCache(), LookupCache()
    left.add((1,), 2, 3)
    right.add((1,), 2, 4)
    right.add((1,), 3)
    right.add((7, 8), 9)
    left.merge(right)
    assert contents(left) == {(1,): {2: 7, 3: 1}, (7, 8): {9: 1}}
    left.add((7, 8), 9)
    assert right.followers((7, 8)) == {9: 1}


def test_counts_stop_at_the_largest_int32() -> None:
    cache, more = LookupCache(), LookupCache()
    cache.add((1,), 2, MAX_COUNT)
    more.add((1,), 2, MAX_COUNT)
    cache.merge(more)
    cache.add((1,), 2)
    cache.learn([1, 2], 1)
    assert cache.followers((1,)) == {2: MAX_COUNT}


def test_the_least_useful_ngrams_go_first_and_the_oldest_among_equals() -> None:
    cache = LookupCache(max_ngrams=5)
    cache.add((1,), 1)
    cache.add((2,), 1, 9)
    for token in range(10):
        cache.add((3,), token)
    cache.add((4,), 1)
    cache.add((5,), 1, 2)
    cache.add((6,), 1)
    cache.evict()
    assert list(contents(cache)) == [(2,), (4,), (5,), (6,)]


def test_a_cache_never_stays_above_its_bound() -> None:
    cache = LookupCache(max_ngrams=50)
    tokens = [(7 * place) % 101 for place in range(300)]
    for end in range(1, 300):
        cache.learn(tokens[:end], end - 1)
        assert len(cache) <= 50
    other = LookupCache()
    other.learn(list(range(500, 900)))
    cache.merge(other)
    assert len(cache) <= 50


def test_usefulness_weighs_how_often_and_how_surely_the_best_follower_is_right() -> None:
    assert usefulness({1: 2}) > usefulness({1: 1})
    assert usefulness({1: 1}) > usefulness({1: 1, 2: 1, 3: 1})


def test_merged_ngrams_count_as_touched_last() -> None:
    cache, newer = LookupCache(), LookupCache()
    for token in (1, 2, 3):
        cache.add((token,), 1)
    newer.add((1,), 1)
    cache.merge(newer)
    assert list(contents(cache)) == [(2,), (3,), (1,)]
