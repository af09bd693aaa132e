"""The store: finished files only, each with a record, and who needs it."""

from __future__ import annotations

import hashlib
import os  # noqa: F401 - for the condition of a skip
from pathlib import Path

import pytest

from localspec.catalog.entries import CatalogModel, HubSource
from localspec.errors import DownloadError
from localspec.hub.resolve import LocalFile, Missing, locate
from localspec.hub.store import Store, storage_errors

SOURCE = HubSource("owner/repo", "model.gguf")
DATA = b"the whole file"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def final(store: Store) -> Path:
    path = store.path_for(SOURCE)
    partial = store.partial_for(path)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(DATA)
    store.finish(partial, path, origin=str(SOURCE), sha256=SHA256, commit="c")
    return path


def test_finishing_moves_the_file_and_records_it(store: Store, final: Path) -> None:
    assert final.read_bytes() == DATA
    assert not store.partial_for(final).exists()
    record = store.record(final)
    assert record is not None
    assert (record.sha256, record.size, record.origin) == (SHA256, len(DATA), str(SOURCE))


def test_a_file_that_was_changed_has_no_record_any_more(store: Store, final: Path) -> None:
    final.write_bytes(DATA + b"!")
    assert store.record(final) is None
    pinned = CatalogModel("m", SOURCE, sha256=SHA256)
    assert isinstance(locate(pinned, store), Missing)


def test_a_damaged_record_is_no_record(store: Store, final: Path) -> None:
    for path in (store.root / ".records").rglob("*.json"):
        path.write_text("{", encoding="utf-8")
    assert store.record(final) is None


def test_another_hash_than_pinned_is_missing(store: Store, final: Path) -> None:
    assert isinstance(locate(CatalogModel("m", SOURCE, sha256="0" * 64), store), Missing)
    assert isinstance(locate(CatalogModel("m", SOURCE, sha256=SHA256), store), LocalFile)


def test_unfinished_files_and_records_are_no_models(store: Store, final: Path) -> None:
    partial = store.partial_for(store.path_for(HubSource("owner/repo", "other.gguf")))
    partial.write_bytes(b"half")
    assert list(store.files()) == [final]


def test_wanting_is_remembered_and_given_up(store: Store, final: Path) -> None:
    store.want(final, "a")
    store.want(final, "b")
    store.want(final, "a")
    assert store.unwant(final, "a") == ("b",)
    assert store.unwant(final, "b") == ()


def test_removing_leaves_no_empty_folders(store: Store, final: Path) -> None:
    assert store.remove(final) == len(DATA)
    assert not final.parent.exists()
    assert not list((store.root / ".records").rglob("*"))


def test_space_is_checked_where_the_folder_will_be(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def usage(folder: Path) -> object:
        asked.append(folder)
        return type("Usage", (), {"free": 10})()

    monkeypatch.setattr("shutil.disk_usage", usage)
    store.check_space(10)
    with pytest.raises(DownloadError) as caught:
        store.check_space(11)
    assert all(folder.exists() for folder in asked)
    assert caught.value.fields["free"] == 10


@pytest.mark.skipif(
    "not hasattr(os, 'geteuid') or os.geteuid() == 0", reason="root writes everywhere"
)
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DownloadError, match="permission denied"), storage_errors(tmp_path):
        (tmp_path / "x").mkdir()


def test_errors_of_the_network_are_not_the_disks(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError), storage_errors(tmp_path):
        raise ConnectionResetError(104, "reset")
