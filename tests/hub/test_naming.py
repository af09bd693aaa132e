"""Repositories, quantisations, revisions, split files and misspelt names, as the Hub knows them."""

from __future__ import annotations

import random

import pytest

from localspec.errors import DownloadError, UsageError
from localspec.hub.pull import plan_pull
from localspec.hub.remove import remove
from localspec.hub.resolve import LocalFile
from tests.hub.conftest import FAST, TARGET_FILE, TARGET_REPO, World

PARTS = [f"Q8_0/Huge-Q8_0-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


@pytest.fixture
def repo(world: World) -> World:
    source = random.Random("repo")
    names = ["Huge-Q2_K.gguf", "Huge-Q4_K_M.gguf", "mmproj-Huge-F16.gguf", *PARTS]
    files = {name: source.randbytes(20_000 + 1000 * i) for i, name in enumerate(names)}
    files["mtp-Huge.gguf"] = source.randbytes(500)
    world.hub.add("people/Huge-GGUF", files).revisions = ("main", "v1.0", "refs/pr/1")
    return world


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("people/Huge-GGUF", ["Huge-Q4_K_M.gguf"]),
        ("people/Huge-GGUF:Q2_K", ["Huge-Q2_K.gguf"]),
        ("people/huge-gguf:q2_k", ["Huge-Q2_K.gguf"]),
        ("people/Huge-GGUF:Huge-Q2_K.gguf", ["Huge-Q2_K.gguf"]),
        ("people/Huge-GGUF/Huge-Q2_K.gguf", ["Huge-Q2_K.gguf"]),
        ("people/Huge-GGUF:q8_0", [name.split("/")[1] for name in PARTS]),
        (f"people/Huge-GGUF/{PARTS[0]}", [name.split("/")[1] for name in PARTS]),
        ("people/Huge-GGUF@v1.0:Q2_K", ["Huge-Q2_K.gguf"]),
        ("people/Huge-GGUF/Huge-Q2_K.gguf@refs/pr/1", ["Huge-Q2_K.gguf"]),
    ],
)
def test_what_is_pulled_and_found_again(name: str, files: list[str], repo: World) -> None:
    pulled = repo.pull(name)
    assert [file.path.name for file in pulled] == files
    content = repo.hub.repos["people/Huge-GGUF"].files
    for file in pulled:
        inside = next(n for n in content if n.endswith(file.path.name))
        assert file.path.read_bytes() == content[inside].content
    again = repo.resolve(name)
    assert isinstance(again.target, LocalFile)
    assert again.target.path == pulled[0].path
    assert again.target.size == sum(file.size for file in pulled)


def test_split_model_without_one_part_is_missing(repo: World) -> None:
    pulled = repo.pull("people/Huge-GGUF:Q8_0")
    pulled[1].path.unlink()
    plan = repo.plan("people/Huge-GGUF:Q8_0")
    assert [file.on_disk for file in plan.files] == [True, False, True]
    repo.pull("people/Huge-GGUF:Q8_0")
    assert isinstance(repo.resolve("people/Huge-GGUF:Q8_0").target, LocalFile)


def test_more_memory_takes_a_larger_quantisation(repo: World) -> None:
    plan = plan_pull(repo.resolve("people/Huge-GGUF"), memory_budget=10**6, policy=FAST)
    assert len(plan.files) == 3
    small = plan_pull(repo.resolve("people/Huge-GGUF"), memory_budget=20_500, policy=FAST)
    assert [file.path.name for file in small.files] == ["Huge-Q2_K.gguf"]


def test_revisions_do_not_overwrite_each_other(repo: World) -> None:
    main = repo.pull("people/Huge-GGUF/Huge-Q2_K.gguf")[0].path
    tagged = repo.pull("people/Huge-GGUF/Huge-Q2_K.gguf@v1.0")[0].path
    assert main != tagged
    assert main.exists()


MISSES = {
    "people/Huge-GGUF:Q4_K_L": "Q4_K_M",
    "people/Huge-GGUF/Huge-Q4_K_S.gguf": "Huge-Q4_K_M.gguf",
    "people/Huge-GGUFF": "people/Huge-GGUF",
    "peple/Huge-GGUF": "people/Huge-GGUF",
    "people/Huge-GGUF@v2.0:Q2_K": "refs",
}


@pytest.mark.parametrize("name", MISSES)
def test_near_miss_is_told_with_the_nearest(name: str, repo: World) -> None:
    with pytest.raises(DownloadError) as caught:
        repo.plan(name)
    assert MISSES[name] in caught.value.hint
    assert "\n" not in caught.value.message


def test_repository_without_gguf_says_so(repo: World) -> None:
    repo.hub.add("people/Original", {"model.safetensors": b"x"})
    with pytest.raises(DownloadError, match="no GGUF"):
        repo.plan("people/Original")


@pytest.mark.parametrize(
    "name",
    [
        f"{TARGET_REPO}/../../evil.gguf",
        f"{TARGET_REPO}:../evil.gguf",
        f"{TARGET_REPO}:/etc/evil.gguf",
        f"{TARGET_REPO}:C:\\evil.gguf",
    ],
)
def test_a_path_trick_is_refused_before_anybody_is_asked(name: str, world: World) -> None:
    with pytest.raises(UsageError):
        world.plan(name)
    assert world.hub.log == []


def test_a_listing_with_path_tricks_leaves_nothing_outside(world: World) -> None:
    world.hub.add("people/Evil-GGUF", {"../../../evil-Q4_K_M.gguf": b"x" * 100})
    with pytest.raises(UsageError, match="not a path inside a repository"):
        world.pull("people/Evil-GGUF")
    assert not list(world.paths.data.parent.parent.rglob("evil*"))


def test_a_very_long_name_is_stored_and_found(world: World) -> None:
    name = "x" * 230 + "-Q4_K_M.gguf"
    world.hub.add("people/Long-GGUF", {name: b"long" * 100})
    path = world.pull(f"people/Long-GGUF/{name}")[0].path
    assert path.read_bytes() == b"long" * 100
    assert isinstance(world.resolve(f"people/Long-GGUF/{name}").target, LocalFile)


def test_pulled_quantisation_is_found_without_the_network(
    repo: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.pull("people/Huge-GGUF:Q2_K")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert isinstance(repo.resolve("people/Huge-GGUF:q2_k").target, LocalFile)
    assert isinstance(repo.resolve("PEOPLE/huge-gguf").target, LocalFile)
    assert not isinstance(repo.resolve("people/Huge-GGUF:Q4_K_M").target, LocalFile)


def test_target_file_name_is_what_the_hub_shows(world: World) -> None:
    assert world.pull(f"{TARGET_REPO}:{TARGET_FILE}")[0].path.name == TARGET_FILE


def test_removing_a_split_model_takes_every_part(repo: World) -> None:
    repo.pull("people/Huge-GGUF:Q8_0")
    removed = remove(repo.resolve("people/Huge-GGUF:q8_0"))
    assert len(removed) == 3
    assert repo.finished == []


def test_removing_an_incomplete_split_model_takes_what_is_there(repo: World) -> None:
    pulled = repo.pull(f"people/Huge-GGUF/{PARTS[0]}")
    pulled[2].path.unlink()
    assert len(remove(repo.resolve(f"people/Huge-GGUF/{PARTS[0]}"))) == 2
    assert repo.finished == []


def test_a_file_that_a_pair_needs_stays_when_its_name_is_removed(world: World) -> None:
    world.pull()
    (kept,) = remove(world.resolve(f"{TARGET_REPO}/{TARGET_FILE}"))
    assert "big+small" in kept.kept_because
    assert TARGET_FILE in world.finished
