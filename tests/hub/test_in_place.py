"""Files that other programs downloaded are used in place, and held against the catalogue once."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.errors import DownloadError
from localspec.hub.resolve import LocalFile
from tests.hub.conftest import TARGET_FILE, TARGET_REPO, World


@pytest.fixture
def lm_studio(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The target, as LM Studio keeps it."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    path = tmp_path / "home" / ".lmstudio" / "models" / TARGET_REPO / TARGET_FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(world.target)
    return path


def _target_requests(world: World) -> int:
    return len([r for r in world.hub.log if TARGET_FILE in r.path])


def test_the_right_file_is_used_and_not_downloaded(world: World, lm_studio: Path) -> None:
    pulled = world.pull()
    assert pulled[0].path == lm_studio
    assert pulled[0].sha256 == world.sha256("target")
    assert pulled[0].downloaded_bytes == 0
    assert _target_requests(world) == 0


def test_it_is_hashed_once(world: World, lm_studio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.pull()
    again = world.resolve().target
    assert isinstance(again, LocalFile)
    assert again.unverified is None
    lm_studio.write_bytes(world.target)
    changed = world.resolve().target
    assert isinstance(changed, LocalFile)
    assert changed.unverified == world.sha256("target")


def test_another_file_is_found_out_and_then_left_alone(world: World, lm_studio: Path) -> None:
    lm_studio.write_bytes(b"another file")
    with pytest.raises(DownloadError, match="not the catalogue's file") as caught:
        world.pull()
    assert "pull again" in caught.value.hint
    pulled = world.pull()
    assert pulled[0].path != lm_studio
    assert pulled[0].path.read_bytes() == world.target
    assert lm_studio.read_bytes() == b"another file"


def test_without_a_pinned_hash_the_name_decides(world: World, lm_studio: Path) -> None:
    pulled = world.pull(f"{TARGET_REPO}/{TARGET_FILE}")
    assert (pulled[0].path, pulled[0].sha256) == (lm_studio, None)
