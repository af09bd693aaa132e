"""Finding a draft: what fits by its header, where it is looked for, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.hub.client import HubClient
from localspec.hub.draft_candidates import DraftSearch
from localspec.hub.drafts import find_drafts
from localspec.hub.failures import RetryPolicy
from tests.hub.conftest import World, catalog_of
from tests.support.tiny_gguf import write_tiny

REPO = "someone/Fox-8B-GGUF"


@pytest.fixture
def zoo(world: World, tmp_path: Path) -> World:
    """A target with a good draft, one of another vocabulary, and a head beside it."""
    target = write_tiny(tmp_path / "Fox-8B-Q4_K_M.gguf", "llama", n_layer=12)
    draft = write_tiny(tmp_path / "Fox-0.5B-Q8_0.gguf", "llama", n_layer=1, n_vocab=400)
    foreign = write_tiny(tmp_path / "Fox-0.3B-Q8_0.gguf", "llama", n_layer=1, n_vocab=640)
    world.hub.add(
        REPO, {"Fox-8B-Q4_K_M.gguf": target.read_bytes(), "mtp-Fox-8B.gguf": b"head" * 10}
    )
    world.hub.add("someone/Fox-0.5B-GGUF", {"Fox-0.5B-Q8_0.gguf": draft.read_bytes()})
    world.hub.add("someone/Fox-0.3B-GGUF", {"Fox-0.3B-Q8_0.gguf": foreign.read_bytes()})
    world.hub.add("someone/Fox-7B-GGUF", {"Fox-7B-Q8_0.gguf": target.read_bytes()})
    for path in (target, draft, foreign):
        path.unlink()
    return world


def _find(zoo: World, name: str = f"{REPO}/Fox-8B-Q4_K_M.gguf", **kwargs: object) -> DraftSearch:
    client = (
        HubClient(RetryPolicy(attempts=1, patient_attempts=1))
        if kwargs.get("online", True)
        else None
    )
    measured = kwargs.get("measured")
    return find_drafts(
        zoo.resolve(name),
        zoo.catalog,
        zoo.paths,
        client=client,
        measured=measured if isinstance(measured, dict) else None,
    )


def test_hub_is_searched_for_small_models_of_the_family(zoo: World) -> None:
    found = _find(zoo)
    names = {c.name: c for c in found.candidates}
    draft = names["someone/Fox-0.5B-GGUF/Fox-0.5B-Q8_0.gguf"]
    assert (draft.found, draft.method, draft.vocabulary) == ("Hub", "draft", "compatible")
    assert draft.ratio is not None
    assert draft.ratio < 1
    assert not any("Fox-7B" in name for name in names)


def test_foreign_vocabulary_is_refused_with_both_values(zoo: World) -> None:
    refused = dict(_find(zoo).refused)
    reason = refused["someone/Fox-0.3B-GGUF/Fox-0.3B-Q8_0.gguf"]
    assert "320" in reason
    assert "640" in reason


def test_head_beside_the_target_is_named(zoo: World) -> None:
    heads = [c for c in _find(zoo).candidates if c.method == "mtp"]
    assert [c.name for c in heads] == [f"{REPO}/mtp-Fox-8B.gguf"]
    assert heads[0].found == "repository"


def test_headers_are_read_without_downloading_the_files(world: World, tmp_path: Path) -> None:
    target = write_tiny(tmp_path / "t.gguf", "llama", n_layer=2)
    draft = write_tiny(tmp_path / "d.gguf", "llama", n_layer=1)
    # A header of a few kilobytes in front of 40 MB.
    with draft.open("ab") as file:
        file.truncate(40_000_000)
    world.hub.add(REPO, {"Fox-8B-Q4_K_M.gguf": target.read_bytes()})
    small = world.hub.add("someone/Fox-0.5B-GGUF", {"Fox-0.5B-Q8_0.gguf": draft})
    world.hub.rate = 20_000_000
    _find(world)
    sent = world.hub.bytes_sent(small.files["Fox-0.5B-Q8_0.gguf"].sha256)
    assert 0 < sent < 20_000_000


def test_disk_is_searched_offline_and_the_smallest_comes_first(zoo: World) -> None:
    folder = zoo.paths.models / "mine"
    folder.mkdir(parents=True)
    for name, layers in (("target", 30), ("middle", 8), ("small", 1)):
        write_tiny(folder / f"{name}.gguf", "llama", n_layer=layers)
    write_tiny(folder / "foreign.gguf", "llama", n_layer=1, n_vocab=640)
    (folder / "broken.gguf").write_bytes(b"not a model")
    asked = len(zoo.hub.log)
    found = _find(zoo, str(folder / "target.gguf"), online=False)
    assert [Path(c.name).stem for c in found.candidates] == ["small", "middle"]
    assert {c.vocabulary for c in found.candidates} == {"identical"}
    assert [c.small_enough for c in found.candidates] == [True, False]
    assert len(zoo.hub.log) == asked


def test_measured_pair_comes_before_smaller_ones(zoo: World) -> None:
    folder = zoo.paths.models / "mine"
    folder.mkdir(parents=True)
    for name, layers in (("target", 30), ("middle", 8), ("small", 1)):
        write_tiny(folder / f"{name}.gguf", "llama", n_layer=layers)
    zoo.catalog = catalog_of(
        (
            "mine",
            {"path": str(folder / "target.gguf")},
            {"path": str(folder / "middle.gguf")},
        )
    )
    found = _find(zoo, "mine", online=False, measured={"mine": 1.7})
    assert [Path(c.name).stem for c in found.candidates] == ["middle", "small"]
    assert found.candidates[0].measured_speedup == 1.7


def test_hub_that_fails_in_the_middle_keeps_what_was_found(
    zoo: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zoo.paths.models / "mine"
    folder.mkdir(parents=True)
    target = write_tiny(folder / "Fox-8B.gguf", "llama", n_layer=30)
    write_tiny(folder / "small.gguf", "llama", n_layer=1)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = _find(zoo, str(target))
    assert [Path(c.name).stem for c in found.candidates] == ["small"]
    assert any("Hub" in note for note in found.notes)


@pytest.mark.parametrize("name", [REPO, f"{REPO}:Q4_K_M", f"{REPO}:q4_k_m"])
def test_repository_and_quantisation_find_what_their_file_finds(zoo: World, name: str) -> None:
    by_file, found = _find(zoo), _find(zoo, name)
    assert found.candidates == by_file.candidates
    assert found.refused == by_file.refused
    assert found.notes == ()
    assert "compatible" in {candidate.vocabulary for candidate in found.candidates}


def test_family_is_searched_though_the_targets_repository_is_gone(zoo: World) -> None:
    del zoo.hub.repos[REPO]
    found = _find(zoo, REPO)
    assert "someone/Fox-0.5B-GGUF/Fox-0.5B-Q8_0.gguf" in {c.name for c in found.candidates}
    assert any("header" in note for note in found.notes)
