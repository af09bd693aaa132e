"""Xet is taken where plain HTTP does not serve; its bytes are verified all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localspec.errors import DownloadError
from tests.hub.conftest import TARGET_FILE, TARGET_REPO, World

NAME = f"{TARGET_REPO}/{TARGET_FILE}"


@pytest.fixture
def by_xet(world: World, monkeypatch: pytest.MonkeyPatch) -> list[bytes | Exception]:
    """What each Xet transfer brings; the fake Hub offers one for every file."""
    brings: list[bytes | Exception] = []

    def xet_get(*, incomplete_path: Path, _tqdm_bar: Any, **_: Any) -> None:
        brought = brings.pop(0)
        if isinstance(brought, Exception):
            raise brought
        incomplete_path.write_bytes(brought)
        _tqdm_bar.update(len(brought))

    world.hub.xet = True
    monkeypatch.setattr("huggingface_hub.file_download.xet_get", xet_get)
    monkeypatch.setattr("huggingface_hub.utils._runtime.is_xet_available", lambda: True)
    return brings


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is beyond what plain HTTP serves."""
    monkeypatch.setattr("huggingface_hub.constants.MAX_HTTP_DOWNLOAD_SIZE", 1000)


def test_a_file_too_large_for_http_comes_by_xet(
    large: None, by_xet: list[bytes | Exception], world: World
) -> None:
    by_xet.append(world.target)
    pulled = world.pull(NAME)[0]
    assert pulled.path.read_bytes() == world.target
    assert (pulled.downloaded_bytes, pulled.resumed) == (len(world.target), False)
    assert world.hub.requests("storage") == []


def test_other_files_come_by_http_which_can_be_resumed(
    by_xet: list[bytes | Exception], world: World
) -> None:
    assert world.pull(NAME)[0].path.read_bytes() == world.target
    assert len(world.hub.requests("storage")) == 1


def test_the_user_may_ask_for_xet(
    by_xet: list[bytes | Exception], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_XET_HIGH_PERFORMANCE", "1")
    by_xet.append(world.target)
    world.pull(NAME)
    assert world.hub.requests("storage") == []


def test_the_user_may_forbid_xet(
    large: None,
    by_xet: list[bytes | Exception],
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    assert world.pull(NAME)[0].path.read_bytes() == world.target


@pytest.mark.parametrize("failure", [RuntimeError("xet"), b"too short"])
def test_a_failing_xet_is_followed_by_http(
    failure: bytes | Exception, large: None, by_xet: list[bytes | Exception], world: World
) -> None:
    by_xet.append(failure)
    assert world.pull(NAME)[0].path.read_bytes() == world.target
    assert len(world.hub.requests("storage")) == 1


def test_wrong_bytes_from_xet_are_refused(
    large: None, by_xet: list[bytes | Exception], world: World
) -> None:
    by_xet.append(world.target[:-1] + b"?")
    with pytest.raises(DownloadError, match="sha256"):
        world.pull(NAME)
    assert world.finished == []
    assert not [p for p in world.paths.models.rglob("*.whole") if p.is_file()]
