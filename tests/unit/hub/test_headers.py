"""Headers are read once, and again only when the file changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.hub import headers
from localspec.hub.headers import HeaderCache, HeaderSummary
from localspec.hub.inventory import model_rows
from localspec.hub.local_models import models_below
from localspec.paths import Paths
from tests.support.tiny_gguf import write_tiny


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every header that is really read."""
    read: list[Path] = []
    original = headers._read

    def counted(path: Path) -> HeaderSummary:
        read.append(path)
        return original(path)

    monkeypatch.setattr(headers, "_read", counted)
    return read


def test_second_listing_of_500_files_reads_no_header(
    paths: Paths, tmp_path: Path, reads: list[Path]
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    one = write_tiny(folder / "000.gguf", "llama", n_layer=1)
    for number in range(1, 500):
        (folder / f"{number:03d}.gguf").hardlink_to(one)
    first = model_rows(models_below(folder), paths)
    assert len(first) == len(reads) == 500
    assert model_rows(models_below(folder), paths) == first
    assert len(reads) == 500


def test_a_changed_file_is_read_again(paths: Paths, tmp_path: Path, reads: list[Path]) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", n_layer=1)
    with HeaderCache(paths) as cache:
        assert cache.summary(path).architecture == "llama"
    write_tiny(path, "gqa", n_layer=2)
    with HeaderCache(paths) as cache:
        assert cache.summary(path).architecture == "qwen3"
    assert len(reads) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "files": {"x": 3}}', "\xff"])
def test_a_damaged_cache_counts_as_empty(
    text: str, paths: Paths, tmp_path: Path, reads: list[Path]
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", n_layer=1)
    paths.cache.mkdir()
    (paths.cache / "headers.json").write_text(text, encoding="latin-1")
    with HeaderCache(paths) as cache:
        assert cache.summary(path).n_vocab == 320
    assert len(reads) == 1


def test_what_is_no_model_has_a_problem_and_not_an_exception(paths: Paths, tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("hello", encoding="utf-8")
    with HeaderCache(paths) as cache:
        assert cache.summary(text).problem
        assert cache.summary(tmp_path / "gone.gguf").problem


def test_files_that_are_gone_are_forgotten(paths: Paths, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", n_layer=1)
    other = write_tiny(tmp_path / "n.gguf", "llama", n_layer=1)
    with HeaderCache(paths) as cache:
        cache.summary(path)
    path.unlink()
    with HeaderCache(paths) as cache:
        cache.summary(other)
    assert "m.gguf" not in (paths.cache / "headers.json").read_text(encoding="utf-8")


def test_listing_of_a_folder_shows_models_only(paths: Paths, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    names = [
        "a.gguf",
        "b.txt",
        "mmproj-a.gguf",
        "deep/er/c.GGUF",
        ".hidden/d.gguf",
        "s-00001-of-00002.gguf",
        "s-00002-of-00002.gguf",
        "t-00001-of-00002.gguf",
    ]
    for name in names:
        (folder / name).write_bytes(b"12")
    found = {
        model.path.relative_to(folder).as_posix(): model.size for model in models_below(folder)
    }
    assert found == {"a.gguf": 2, "deep/er/c.GGUF": 2, "s-00001-of-00002.gguf": 4}
