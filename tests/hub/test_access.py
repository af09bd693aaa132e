"""Tokens, licences, offline mode: who may have what, and what a refusal says."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from huggingface_hub import close_session

from localspec.errors import DownloadError
from tests.hub.conftest import TARGET_FILE, TARGET_REPO, World
from tests.support.fake_hub import Fault


def test_gated_without_a_token_tells_where_to_accept_the_licence(world: World) -> None:
    world.hub.repos[TARGET_REPO].gated = True
    with pytest.raises(DownloadError, match="gated") as caught:
        world.plan()
    assert f"{world.hub.endpoint}/{TARGET_REPO}" in caught.value.hint
    assert world.hub.requests("storage") == []


def test_gated_with_a_token_that_accepted_nothing_tells_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hub.repos[TARGET_REPO].gated = True
    world.hub.known.add("hf_stranger")
    monkeypatch.setenv("HF_TOKEN", "hf_stranger")
    with pytest.raises(DownloadError, match="gated") as caught:
        world.plan()
    assert "accept its licence" in caught.value.hint


@pytest.mark.parametrize("kind", ["gated", "private"])
def test_the_users_token_opens_what_it_may(
    kind: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    setattr(world.hub.repos[TARGET_REPO], kind, True)
    world.hub.accepted.add("hf_friend")
    monkeypatch.setenv("HF_TOKEN", "hf_friend")
    assert world.pull()[0].path.read_bytes() == world.target


def test_the_token_does_not_follow_to_another_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hub.accepted.add("hf_friend")
    monkeypatch.setenv("HF_TOKEN", "hf_friend")
    world.pull()
    assert {r.token for r in world.hub.requests("hub", "HEAD")} == {"hf_friend"}
    assert {r.token for r in world.hub.requests("storage")} == {None}


def test_private_looks_like_missing_and_says_what_to_do(world: World) -> None:
    world.hub.repos[TARGET_REPO].private = True
    with pytest.raises(DownloadError, match=f"no repository {TARGET_REPO}") as caught:
        world.plan()
    assert "HF_TOKEN" in caught.value.hint


def test_an_invalid_token_is_named_as_the_cause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    with pytest.raises(DownloadError, match="token") as caught:
        world.plan()
    assert "HF_TOKEN" in caught.value.hint


def test_forbidden_is_one_line(world: World) -> None:
    world.hub.hub_faults.append(Fault(status=403))
    with pytest.raises(DownloadError, match="403"):
        world.plan()


def test_offline_mode_asks_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DownloadError, match="offline mode") as caught:
        world.plan()
    assert "HF_HUB_OFFLINE" in caught.value.hint
    assert world.hub.log == []


def test_no_network_is_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(DownloadError, match="connection") as caught:
            world.plan()
    assert "\n" not in caught.value.message


def test_a_server_that_is_no_hub_is_found_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", world.hub.storage)
    with pytest.raises(DownloadError):
        world.plan()


def test_a_token_in_a_revision_of_the_log_is_never_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    world.hub.known.add("hf_very_secret")
    world.hub.fault(TARGET_FILE, *[Fault(status=503)] * 20)
    with pytest.raises(DownloadError) as caught:
        world.pull()
    assert "hf_very_secret" not in str(caught.value.as_dict())


def test_nothing_is_asked_but_what_the_pull_needs(world: World) -> None:
    world.pull()
    paths = {request.path for request in world.hub.log if request.server == "hub"}
    assert all("/resolve/" in path for path in paths)


@pytest.fixture
def _fresh_connections() -> Iterator[None]:
    """Proxies are read when the first connection of a process is made."""
    close_session()
    yield
    close_session()


@pytest.mark.usefixtures("_fresh_connections")
def test_the_users_proxy_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # The fake Hub as a proxy: only it knows a host of this name.
    monkeypatch.setenv("HTTP_PROXY", world.hub.endpoint)
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    assert world.pull()[0].path.read_bytes() == world.target
    assert all(
        request.path.startswith("http://hub.invalid/") for request in world.hub.requests("hub")
    )


@pytest.mark.usefixtures("_fresh_connections")
def test_a_proxy_that_is_not_there_is_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY")
    with pytest.raises(DownloadError, match="connection") as caught:
        world.plan()
    assert "proxy" in caught.value.hint
