"""A cache written by llama.cpp's own `llama-lookup-create`, and what we make of the same text."""

from __future__ import annotations

import struct
from pathlib import Path

from localspec.decoding.lookup_cache import NGRAM_STATIC, LookupCache
from localspec.decoding.lookup_file import parse_lookup, read_lookup_file, serialise_lookup

SAMPLE = Path(__file__).parent / "lookup-static-smollm2.bin"
# SmolLM2's tokens of "The quick brown fox jumps over the lazy dog. The quick brown fox sleeps.
# def add(a, b):\n    return a + b\ndef sub(a, b):\n    return a - b": llama.cpp reads a prompt file
# without its last line feed.
TOKENS = [
    *(504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767, 30, 378, 2365, 6354, 16438, 2801),
    *(99, 30, 753, 803, 24, 81, 28, 278, 727, 472, 1003, 253, 1232, 278, 198, 1604, 840, 24, 81),
    *(28, 278, 727, 472, 1003, 253, 731, 278),
]


def built_from(tokens: list[int]) -> LookupCache:
    cache = LookupCache()
    cache.learn(tokens, ngram_min=NGRAM_STATIC, ngram_max=NGRAM_STATIC)
    return cache


def test_the_sample_of_llama_lookup_create_loads() -> None:
    cache = read_lookup_file(SAMPLE)
    assert len(cache) == 31
    assert {len(ngram) for ngram, _ in cache} == {2}


def test_building_from_the_same_text_gives_the_same_records() -> None:
    assert built_from(TOKENS) == read_lookup_file(SAMPLE)


def test_what_we_write_has_the_same_records_byte_for_byte() -> None:
    theirs = SAMPLE.read_bytes()
    ours = serialise_lookup(parse_lookup(theirs))
    assert len(ours) == len(theirs)
    assert sorted(records(ours)) == sorted(records(theirs))


def records(data: bytes) -> list[bytes]:
    """The raw records, followers in ascending order of token, read without the code under test."""
    found, position = [], 0
    while position < len(data):
        count = struct.unpack_from("<i", data, position + 16)[0]
        end = position + 20 + 8 * count
        pairs = sorted(data[at : at + 8] for at in range(position + 20, end, 8))
        found.append(data[position : position + 20] + b"".join(pairs))
        position = end
    return found
