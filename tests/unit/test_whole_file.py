"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from localspec.whole_file import write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


def test_what_was_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.json", "grüße\n")
    write_whole(tmp_path / "b.bin", b"\x00\r\n\xff")
    assert (tmp_path / "a.json").read_bytes() == "grüße\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\r\n\xff"
    assert names(tmp_path) == ["a.json", "b.bin"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_partial_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    else:
        monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["state.json"]


def test_a_missing_folder_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "file", "text")
    assert not (tmp_path / "no").exists()


@POSIX
def test_permissions_are_kept_and_new_files_follow_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "open", "x")
        write_whole(tmp_path / "own", "x", private=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600


@POSIX
def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "models.toml"
    real.parent.mkdir()
    real.write_text("old")
    link = tmp_path / "models.toml"
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_many_writers_at_once_leave_one_of_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    texts = [str(number) * 20_000 for number in range(8)]
    threads = [threading.Thread(target=write_whole, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert names(tmp_path) == ["shared"]


def test_a_name_as_long_as_the_disk_allows_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 250), "text")
    assert len(names(tmp_path)) == 1
