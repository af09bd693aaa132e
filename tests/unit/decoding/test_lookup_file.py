"""The file of a lookup cache: layout, sidecar, atomic writing, refusals in one line."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from localspec.decoding import lookup_file
from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.lookup_file import (
    ForeignCache,
    parse_lookup,
    read_lookup_file,
    read_vocabulary,
    serialise_lookup,
    sidecar_path,
    write_lookup_file,
)
from localspec.errors import CacheFileError


def small_cache() -> LookupCache:
    cache = LookupCache()
    cache.add((7, 8), 9, 2)
    cache.add((7, 8), 10, 5)
    cache.add((1,), 2)
    return cache


def test_the_layout_is_that_of_llama_cpp() -> None:
    first = struct.pack("<4i i 4i", 7, 8, -1, -1, 2, 10, 5, 9, 2)
    second = struct.pack("<4i i 2i", 1, -1, -1, -1, 1, 2, 1)
    assert serialise_lookup(small_cache()) == first + second


def test_a_written_cache_reads_back_with_its_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.bin"
    write_lookup_file(path, small_cache(), vocabulary="abc")
    assert read_lookup_file(path, vocabulary="abc") == small_cache()
    assert read_vocabulary(path) == "abc"
    assert json.loads(sidecar_path(path).read_text())["ngrams"] == 2
    assert sorted(p.name for p in path.parent.iterdir()) == ["cache.bin", "cache.bin.json"]


def test_a_cache_of_another_vocabulary_is_refused_with_both_names(tmp_path: Path) -> None:
    path = tmp_path / "cache.bin"
    write_lookup_file(path, small_cache(), vocabulary="abc")
    with pytest.raises(ForeignCache, match=r"vocabulary abc, this model has xyz"):
        read_lookup_file(path, vocabulary="xyz")
    with pytest.raises(ForeignCache, match="token 10, this model has 10 tokens"):
        read_lookup_file(path, n_vocab=10)


def test_a_cache_without_a_sidecar_is_one_of_llama_cpp(tmp_path: Path) -> None:
    path = tmp_path / "theirs.bin"
    path.write_bytes(serialise_lookup(small_cache()))
    assert read_lookup_file(path, vocabulary="abc", n_vocab=100) == small_cache()


GOOD = serialise_lookup(small_cache())
HOSTILE = {
    "no whole integers": GOOD + b"x",
    "ends in the n-gram": GOOD + struct.pack("<2i", 3, -1),
    "ends before its followers": GOOD + struct.pack("<4i i", 3, -1, -1, -1, 1),
    "claims two billion followers": struct.pack("<4i i 2i", 3, -1, -1, -1, 2**31 - 1, 1, 1),
    "no followers": struct.pack("<4i i", 3, -1, -1, -1, 0),
    "a negative number of followers": struct.pack("<4i i", 3, -1, -1, -1, -5),
    "an empty n-gram": struct.pack("<4i i 2i", -1, -1, -1, -1, 1, 2, 1),
    "a hole in the n-gram": struct.pack("<4i i 2i", 3, -1, 4, -1, 1, 2, 1),
    "a negative token": struct.pack("<4i i 2i", 3, -7, -1, -1, 1, 2, 1),
    "a negative follower": struct.pack("<4i i 2i", 3, -1, -1, -1, 1, -2, 1),
    "a count of zero": struct.pack("<4i i 2i", 3, -1, -1, -1, 1, 2, 0),
    "a follower twice": struct.pack("<4i i 4i", 3, -1, -1, -1, 2, 2, 1, 2, 1),
    "an n-gram twice": GOOD + GOOD,
    "text": b"this is not a lookup cache, is it...",
    "a GGUF header": b"GGUF" + struct.pack("<IQQ", 3, 2, 4) + b"\0" * 40,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_llama_cpp_could_not_have_written_is_refused_in_one_line(kind: str) -> None:
    with pytest.raises(CacheFileError, match="is not a lookup cache") as caught:
        parse_lookup(HOSTILE[kind], name="some.bin")
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith("some.bin")


def test_an_empty_file_is_an_empty_cache(tmp_path: Path) -> None:
    path = tmp_path / "empty.bin"
    path.touch()
    assert len(read_lookup_file(path)) == 0


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.bin", tmp_path):
        with pytest.raises(CacheFileError, match="cannot be read"):
            read_lookup_file(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.bin"
    with path.open("wb") as file:
        file.truncate(lookup_file.MAX_FILE_BYTES + 4)
    with pytest.raises(CacheFileError, match="may have"):
        read_lookup_file(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"vocabulary": 3}', "[" * 4000])
def test_a_sidecar_that_names_no_vocabulary_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cache.bin"
    write_lookup_file(path, small_cache(), vocabulary="abc")
    sidecar_path(path).write_text(text)
    with pytest.raises(CacheFileError, match="does not name a vocabulary"):
        read_lookup_file(path, vocabulary="abc")


def test_a_failed_write_leaves_the_old_cache_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cache.bin"
    write_lookup_file(path, small_cache(), vocabulary="abc")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    bigger = small_cache()
    bigger.add((50, 51), 52)
    with pytest.raises(CacheFileError, match="cannot be written: No space left"):
        write_lookup_file(path, bigger, vocabulary="abc")
    monkeypatch.undo()
    assert read_lookup_file(path, vocabulary="abc") == small_cache()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache.bin", "cache.bin.json"]


def test_a_loaded_cache_is_cut_to_its_bound(tmp_path: Path) -> None:
    cache = LookupCache()
    cache.learn(list(range(200)))
    path = tmp_path / "cache.bin"
    write_lookup_file(path, cache, vocabulary="abc")
    assert len(read_lookup_file(path, max_ngrams=100)) <= 100
