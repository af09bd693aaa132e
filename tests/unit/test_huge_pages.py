"""Who asks for huge pages, and when weights are copied so as to lie in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from localspec.engine import huge_pages
from localspec.engine.child import run_in_child

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    monkeypatch.setattr(huge_pages, "_KERNEL_SETTING", setting)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    return setting


def _variable() -> str:
    return os.environ.get("GLIBC_TUNABLES", "")


@LINUX
def test_the_engine_asks_and_this_process_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert run_in_child(_variable) == "glibc.malloc.hugetlb=1"
    assert "GLIBC_TUNABLES" not in os.environ


@LINUX
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    with huge_pages.asked_for():
        assert _variable() == "glibc.malloc.check=0:glibc.malloc.hugetlb=1"
    assert _variable() == "glibc.malloc.check=0"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    with huge_pages.asked_for():
        assert _variable() == "glibc.malloc.hugetlb=0"
        assert not huge_pages.are_granted()


def test_no_copy_without_huge_pages(
    granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"x" * 1000)
    assert huge_pages.copies_weights(model, 10_000, ["cpu"])
    granted.write_text("always madvise [never]\n")
    assert not huge_pages.copies_weights(model, 10_000, ["cpu"])
    granted.unlink()
    assert not huge_pages.copies_weights(model, 10_000, ["cpu"])
    granted.write_text("[always] madvise never\n")
    monkeypatch.delenv("GLIBC_TUNABLES")
    assert not huge_pages.copies_weights(model, 10_000, ["cpu"])


def test_large_files_parts_and_models_on_a_gpu_are_mapped(granted: Path, tmp_path: Path) -> None:
    model, part, large = (tmp_path / n for n in ("m.gguf", "m-00001-of-00002.gguf", "large.gguf"))
    for path in (model, part):
        path.write_bytes(b"x" * 1000)
    with large.open("wb") as file:
        file.truncate(3 * 2**30)
    assert huge_pages.copies_weights(model, 2000, ["cpu"])
    assert not huge_pages.copies_weights(model, 1999, ["cpu"])
    assert not huge_pages.copies_weights(model, 2000, ["gpu", "cpu"])
    assert not huge_pages.copies_weights(part, 2000, ["cpu"])
    assert not huge_pages.copies_weights(large, 2**40, ["cpu"])
