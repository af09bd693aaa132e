"""The dynamic cache on disk: only new counts are added, two processes lose nothing."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from localspec.decoding import lookup_store
from localspec.decoding.lookup import LookupDrafter
from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.lookup_file import ForeignCache
from localspec.decoding.lookup_store import LookupStore, store_path
from localspec.errors import CacheFileError


def cache_with(ngram: tuple[int, ...], token: int, count: int = 1) -> LookupCache:
    cache = LookupCache()
    cache.add(ngram, token, count)
    return cache


def store(folder: Path, vocabulary: str = "abc") -> LookupStore:
    return LookupStore(store_path(folder, vocabulary), vocabulary)


def test_the_first_load_is_empty_and_what_is_saved_is_loaded(tmp_path: Path) -> None:
    assert len(store(tmp_path / "new").load()) == 0
    store(tmp_path / "new").save(cache_with((1, 2), 3))
    assert store(tmp_path / "new").load() == cache_with((1, 2), 3)


def test_an_empty_session_writes_nothing(tmp_path: Path) -> None:
    store(tmp_path).save(LookupCache())
    assert list(tmp_path.iterdir()) == []


def test_a_session_adds_its_own_counts_once(tmp_path: Path) -> None:
    store(tmp_path).save(cache_with((1, 2), 3, 5))
    for _ in range(2):
        drafter = LookupDrafter(dynamic=store(tmp_path).load())
        drafter.begin([1])
        drafter.observe([2, 3], 0)
        store(tmp_path).save(drafter.context)
        drafter.saved()
        store(tmp_path).save(drafter.context)
        assert drafter.dynamic == store(tmp_path).load()
    assert store(tmp_path).load().followers((1, 2)) == {3: 7}


def save_many(folder: str, first: int, ready: multiprocessing.synchronize.Barrier) -> None:
    ready.wait()
    for count in range(15):
        store(Path(folder)).save(cache_with((first + count,), 1))
        store(Path(folder)).save(cache_with((7, 7), 7))


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    workers = [
        context.Process(target=save_many, args=(str(tmp_path), 1000 * place, ready))
        for place in (1, 2, 3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    cache = store(tmp_path).load()
    assert cache.followers((7, 7)) == {7: 45}
    assert len(cache) == 46


def test_an_unreadable_cache_is_refused_by_load_and_set_aside_by_save(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.save(cache_with((1,), 2))
    kept.path.write_bytes(b"broken!")
    with pytest.raises(CacheFileError, match="is not a lookup cache"):
        kept.load()
    kept.save(cache_with((3,), 4))
    assert kept.load() == cache_with((3,), 4)
    assert kept.aside_path.read_bytes() == b"broken!"


def test_a_cache_of_another_vocabulary_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.bin"
    LookupStore(path, "abc").save(cache_with((1,), 2))
    other = LookupStore(path, "xyz")
    with pytest.raises(ForeignCache):
        other.load()
    with pytest.raises(ForeignCache):
        other.save(cache_with((3,), 4))
    assert LookupStore(path, "abc").load() == cache_with((1,), 2)


def test_a_lock_that_is_never_given_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_store, "LOCK_TIMEOUT_S", 0.01)
    first = store(tmp_path)
    with first._locked(), pytest.raises(CacheFileError, match="in use by another process"):
        store(tmp_path).save(cache_with((1,), 2))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheFileError):
        LookupStore(tmp_path / "file" / "cache.bin", "abc").save(cache_with((1,), 2))


def test_the_file_on_disk_stays_within_its_bound(tmp_path: Path) -> None:
    small = LookupStore(tmp_path / "small.bin", "abc", max_ngrams=20)
    for first in range(0, 200, 10):
        session = LookupCache()
        session.learn(list(range(first, first + 10)))
        small.save(session)
        assert len(small.load()) <= 20
    small.clear()
    assert len(small.load()) == 0
