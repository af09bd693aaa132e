"""Hostile headers: an error that says what is wrong, never memory, never another exception."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.errors import BadModelFile
from localspec.ggufmeta.architecture import read_architecture
from localspec.ggufmeta.header import Header, parse_header, read_header
from localspec.ggufmeta.runnable import refuse_unrunnable
from localspec.ggufmeta.source import BytesSource, RangeSource
from localspec.ggufmeta.vocabulary import fingerprint
from tests.support.tiny_gguf import write_tiny

EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A real header, and the size of its file."""
    path: Path = write_tiny(tmp_path_factory.mktemp("fuzz") / "a.gguf", "swa")
    size = path.stat().st_size
    return path.read_bytes()[: read_header(path).parts[0].header_size], size


def examine(data: bytes, size: int) -> bool:
    """Whether all that looks at a header accepts this one; any error must be BadModelFile."""
    message = ""
    try:
        header: Header = parse_header(BytesSource(data, "fuzzed", size))
        refuse_unrunnable(header)
        read_architecture(header)
        fingerprint(header)
    except BadModelFile as error:
        message = error.message
    assert "\n" not in message
    assert not message or "fuzzed" in message
    return not message


def test_untouched_header_is_accepted(good: tuple[bytes, int]) -> None:
    assert examine(*good)


def test_thousands_of_damaged_headers_stay_small(good: tuple[bytes, int]) -> None:
    data, size = good
    rng = random.Random(20260101)
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(3000):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                # Most of the header is text; numbers stand near its beginning.
                place = rng.randrange(len(broken) if rng.random() < 0.5 else 700)
                if rng.random() < 0.5:
                    broken[place] = rng.randrange(256)
                else:
                    width = rng.choice((4, 8))
                    value = rng.choice(EXTREMES) & ((1 << 8 * width) - 1)
                    broken[place : place + width] = value.to_bytes(width, "little")
            refused += not examine(bytes(broken), size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused > 500
    assert peak < 64 * len(data) + 4_000_000


def test_every_truncation_is_refused(good: tuple[bytes, int]) -> None:
    data, _ = good
    for length in range(0, len(data) - 40, 37):
        assert not examine(data[:length], length)


@given(st.binary(max_size=400))
def test_noise_after_the_magic_is_refused(noise: bytes) -> None:
    data = b"GGUF" + struct.pack("<I", 3) + noise
    assert not examine(data, len(data))


@given(
    count=st.integers(1, (1 << 64) - 1),
    length=st.integers(0, (1 << 64) - 1),
    claimed_size=st.integers(100, 1 << 50),
)
def test_claims_never_make_a_source_read_more_than_it_has(
    count: int, length: int, claimed_size: int
) -> None:
    """Whatever a header claims, at most what the source really gives is ever held."""
    array = struct.pack("<IIQQ", 9, 8, count, length)
    data = b"GGUF" + struct.pack("<IQQQ", 3, 1 + count % 5, 1, 1) + b"k" + array
    given_out = 0

    def fetch(offset: int, wanted: int) -> bytes:
        nonlocal given_out
        found = data[offset : offset + wanted]
        given_out += len(found)
        return found

    with pytest.raises(BadModelFile):
        parse_header(RangeSource("fuzzed", claimed_size, fetch, chunk=64))
    assert given_out <= len(data) + 8
