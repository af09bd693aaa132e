"""Lookup files against arbitrary contents and arbitrary bytes."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.lookup_file import parse_lookup, serialise_lookup
from localspec.errors import CacheFileError

TOKENS = st.integers(0, 2**31 - 1)
CACHES = st.dictionaries(
    st.lists(TOKENS, min_size=1, max_size=4).map(tuple),
    st.dictionaries(TOKENS, st.integers(1, 2**31 - 1), min_size=1, max_size=5),
    max_size=12,
)


def cache_of(contents: dict[tuple[int, ...], dict[int, int]]) -> LookupCache:
    cache = LookupCache()
    for ngram, followers in contents.items():
        for token, count in followers.items():
            cache.add(ngram, token, count)
    return cache


@given(CACHES)
def test_every_cache_survives_the_round_trip_and_writes_the_same_bytes_again(
    contents: dict[tuple[int, ...], dict[int, int]],
) -> None:
    data = serialise_lookup(cache_of(contents))
    again = parse_lookup(data)
    assert again == cache_of(contents)
    assert serialise_lookup(again) == data


def refused_or_sound(data: bytes) -> None:
    try:
        cache = parse_lookup(data)
    except CacheFileError:
        return
    assert len(serialise_lookup(cache)) == len(data)
    assert parse_lookup(serialise_lookup(cache)) == cache


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_or_describe_a_cache(data: bytes) -> None:
    refused_or_sound(data)


@settings(max_examples=300)
@given(st.lists(st.integers(-2, 4), max_size=40))
def test_small_integers_are_refused_or_describe_a_cache(words: list[int]) -> None:
    refused_or_sound(struct.pack(f"<{len(words)}i", *words))


@given(CACHES.filter(bool), st.data())
def test_a_cache_with_one_byte_changed_is_refused_or_describes_a_cache(
    contents: dict[tuple[int, ...], dict[int, int]], data: st.DataObject
) -> None:
    whole = bytearray(serialise_lookup(cache_of(contents)))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    refused_or_sound(bytes(whole))


@given(CACHES.filter(bool), st.data())
def test_a_truncated_cache_is_refused_unless_cut_between_records(
    contents: dict[tuple[int, ...], dict[int, int]], data: st.DataObject
) -> None:
    whole = serialise_lookup(cache_of(contents))
    borders = {0}
    for followers in contents.values():
        borders.add(max(borders) + 20 + 8 * len(followers))
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        parse_lookup(whole[:cut])
        assert cut in borders
    except CacheFileError:
        assert cut not in borders
