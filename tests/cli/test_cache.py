"""`localspec cache`: info, merge, clear, and building with the fake engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock

from localspec.cli.cache_build import pieces
from localspec.cli.transcript_file import save_chat
from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.lookup_file import read_lookup_file, write_lookup_file
from localspec.engine.settings import ChatMessage
from tests.cli.conftest import Program
from tests.support.fake_engine import FakeEngine


def write_cache(path: Path, *tokens: int, vocabulary: str = "v1") -> Path:
    cache = LookupCache()
    cache.learn(tokens, ngram_min=2, ngram_max=2)
    write_lookup_file(path, cache, vocabulary=vocabulary)
    return path


def learned(*texts: str) -> LookupCache:
    cache = LookupCache()
    for text in texts:
        cache.learn(list(text.encode()), ngram_min=2, ngram_max=2)
    return cache


def test_build_counts_what_the_files_say(
    program: Program, fake_engine: type[FakeEngine], tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "src" / ".git").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("def f(): pass\n", encoding="utf-8")
    (tmp_path / "src" / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "src" / ".git" / "config").write_text("hidden", encoding="utf-8")
    chat = tmp_path / "chat.json"
    save_chat(chat, "m", [ChatMessage("user", "why?"), ChatMessage("assistant", "so.")])
    out = tmp_path / "out.bin"
    done = program("cache", "build", tmp_path / "src", chat, "--model", tiny, "-o", out)
    assert (done.code, done.err) == (0, "passed over 1 files that are not text\n")
    assert read_lookup_file(out) == learned("def f(): pass", "why?", "so.")


def test_build_counts_across_pieces(
    program: Program,
    fake_engine: type[FakeEngine],
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("localspec.cli.cache_build.pieces", lambda text: pieces(text, 3))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\ntwo three", encoding="utf-8")
    program("cache", "build", corpus, "--model", tiny, "-o", tmp_path / "out.bin")
    assert read_lookup_file(tmp_path / "out.bin") == learned("one\ntwo three")


def test_pieces_are_the_text_and_end_at_line_breaks() -> None:
    text = "ab\ncdef\n\nghijklm"
    assert list(pieces(text, 5)) == ["ab\n", "cdef\n", "\n", "ghijk", "lm"]
    assert "".join(pieces(text * 50, 7)) == text * 50


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not UTF-8 text"),
        (lambda path: path.touch(), "there is no text"),
    ],
)
def test_build_refuses_what_is_no_text(
    make: object, message: str, program: Program, tiny: Path, tmp_path: Path
) -> None:
    assert callable(make)
    make(tmp_path / "file")
    done = program("cache", "build", tmp_path / "file", "--model", tiny, "-o", tmp_path / "o.bin")
    assert done.code == 2
    assert message in done.err_lines[0]
    assert not (tmp_path / "o.bin").exists()


def test_info_shows_named_files_or_those_of_the_user(
    program: Program, tmp_path: Path, home: Path
) -> None:
    write_cache(home / "data" / "lookup" / "v1.bin", 1, 2, 3, 1, 2, 4)
    (facts,) = json.loads(program("cache", "info", "--json").out)
    assert (facts["vocabulary"], facts["ngrams"], facts["followers"], facts["seen"]) == (
        "v1",
        3,
        4,
        4,
    )
    named = write_cache(tmp_path / "other.bin", 5, 6, 7)
    done = program("cache", "info", named)
    assert done.out.splitlines()[1].split()[:3] == ["1", "1", "1"]


def test_info_without_caches_says_so(program: Program) -> None:
    assert program("cache", "info", "--json").out == "[]\n"
    assert "no lookup caches yet" in program("cache", "info").out


def test_merge_adds_counts(program: Program, tmp_path: Path) -> None:
    first = write_cache(tmp_path / "a.bin", 1, 2, 3)
    second = write_cache(tmp_path / "b.bin", 1, 2, 3, 4)
    out = tmp_path / "c.bin"
    assert program("cache", "merge", first, second, "-o", out).code == 0
    merged = read_lookup_file(out, vocabulary="v1")
    assert merged.followers((1, 2)) == {3: 2}
    assert merged.followers((2, 3)) == {4: 1}


def test_merge_refuses_two_vocabularies(program: Program, tmp_path: Path) -> None:
    first = write_cache(tmp_path / "a.bin", 1, 2, 3)
    second = write_cache(tmp_path / "b.bin", 1, 2, 3, vocabulary="v2")
    done = program("cache", "merge", first, second, "-o", tmp_path / "c.bin")
    assert done.code == 1
    assert "the vocabulary v2, the others with v1" in done.err_lines[0]
    assert not (tmp_path / "c.bin").exists()


def test_merge_of_nameless_caches_needs_a_model(
    program: Program, tiny: Path, tmp_path: Path
) -> None:
    nameless = write_cache(tmp_path / "a.bin", 1, 2, 3)
    (tmp_path / "a.bin.json").unlink()
    out = tmp_path / "c.bin"
    assert program("cache", "merge", nameless, "-o", out).code == 2
    assert program("cache", "merge", nameless, "-o", out, "--model", tiny).code == 0


@pytest.mark.parametrize("command", ["build", "merge"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    command: str, program: Program, tmp_path: Path, tiny: Path, fake_engine: type[FakeEngine]
) -> None:
    source = write_cache(tmp_path / "a.bin", 1, 2, 3) if command == "merge" else tmp_path / "a.txt"
    if command == "build":
        source.write_text("some text")
    for out in (tmp_path / "no" / "x.bin", tmp_path):
        done = program("cache", command, source, "--model", tiny, "--out", out)
        assert done.code == 2
        assert "folder" in done.err_lines[0]
        assert done.err_lines[1].startswith("hint: ")
    assert not (tmp_path / "no").exists()
    assert fake_engine.started == []


def test_clear_leaves_nothing_of_what_sessions_left(program: Program, home: Path) -> None:
    folder = home / "data" / "lookup"
    write_cache(folder / "v1.bin", 1, 2, 3)
    for name in ("v1.bin.lock", "v2.bin.unreadable", "v2.bin.lock", "v3.bin.lock"):
        (folder / name).write_bytes(b"x" * 10)
    done = program("cache", "clear", "--yes", "--json")
    assert done.code == 0
    assert list(folder.iterdir()) == []
    assert json.loads(done.out)["bytes"] > 10


def test_a_cache_that_is_in_use_is_not_cleared(
    program: Program, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_cache(home / "data" / "lookup" / "v1.bin", 1, 2, 3)
    monkeypatch.setattr("localspec.decoding.lookup_store.LOCK_TIMEOUT_S", 0.05)
    with FileLock(path.with_name("v1.bin.lock")):
        done = program("cache", "clear", "--yes")
    assert done.code == 1
    assert "in use by another process" in done.err
    assert path.exists()


def test_clear_asks_first(program: Program, tmp_path: Path, home: Path) -> None:
    path = write_cache(home / "data" / "lookup" / "v1.bin", 1, 2, 3)
    assert program("cache", "clear").code == 2
    assert path.exists()
    done = program("cache", "clear", "--yes", "--json")
    assert json.loads(done.out)["deleted"] == [str(path)]
    assert list(path.parent.iterdir()) == []
    assert program("cache", "clear", tmp_path / "no.bin", "--yes").code == 1
