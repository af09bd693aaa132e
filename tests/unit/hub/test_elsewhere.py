"""Files of other programs are found where these programs put them, and used in place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from localspec.catalog.entries import CatalogModel, HubSource
from localspec.hub.local_models import local_models
from localspec.hub.resolve import LocalFile, Missing, locate
from localspec.hub.store import Store
from localspec.paths import Paths

CONTENT = b"GGUF but not really"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SOURCE = HubSource("Owner/Some-GGUF", "Some-Q4_K_M.gguf")
COMMIT = "a" * 40


def _hub_cache(folder: Path, *, ref: str = "main", blob: str = SHA256) -> Path:
    repo = folder / "models--Owner--Some-GGUF"
    (repo / "blobs").mkdir(parents=True)
    (repo / "blobs" / blob).write_bytes(CONTENT)
    (repo / "refs").mkdir()
    (repo / "refs" / ref).write_text(COMMIT, encoding="utf-8")
    path = repo / "snapshots" / COMMIT / "Some-Q4_K_M.gguf"
    path.parent.mkdir(parents=True)
    path.symlink_to(f"../../blobs/{blob}")
    return path


def _plain(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENT)
    return path


def _ollama(folder: Path) -> Path:
    manifest = folder / "manifests" / "hf.co" / "Owner" / "Some-GGUF" / "Q4_K_M"
    manifest.parent.mkdir(parents=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{SHA256}"},
    ]
    manifest.write_text(json.dumps({"layers": layers}), encoding="utf-8")
    return _plain(folder / "blobs" / f"sha256-{SHA256}")


def _locate(
    store: Store, sha256: str | None = None, size: int | None = None, source: HubSource = SOURCE
) -> LocalFile | Missing:
    return locate(CatalogModel("m", source, sha256=sha256, size=size), store)


def _found(store: Store, path: Path, program: str, sha256: str | None = None) -> None:
    located = _locate(store, sha256)
    assert isinstance(located, LocalFile)
    assert (located.path, located.found_in) == (path, program)
    assert located.size == len(CONTENT)


def test_hub_cache_in_its_usual_place(home: Path, store: Store) -> None:
    path = _hub_cache(home / ".cache" / "huggingface" / "hub")
    _found(store, path, "Hub cache")
    _found(store, path, "Hub cache", SHA256)


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
def test_hub_cache_where_the_environment_says(
    variable: str, home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = {"HF_HOME": "hub", "HF_HUB_CACHE": "", "XDG_CACHE_HOME": "huggingface/hub"}[variable]
    monkeypatch.setenv(variable, str(home / "else"))
    _found(store, _hub_cache(home / "else" / inside), "Hub cache")


def test_hub_cache_with_another_file_of_that_name_does_not_count(home: Path, store: Store) -> None:
    _hub_cache(home / ".cache" / "huggingface" / "hub", blob="f" * 64)
    assert isinstance(_locate(store, SHA256), Missing)


def test_hub_cache_of_another_revision_does_not_count(home: Path, store: Store) -> None:
    _hub_cache(home / ".cache" / "huggingface" / "hub")
    source = HubSource(SOURCE.repo, SOURCE.filename, "v2")
    assert isinstance(_locate(store, source=source), Missing)


def test_revision_of_the_hub_cache(home: Path, store: Store) -> None:
    path = _hub_cache(home / ".cache" / "huggingface" / "hub", ref="v2")
    located = _locate(store, source=HubSource(SOURCE.repo, SOURCE.filename, "v2"))
    assert isinstance(located, LocalFile)
    assert located.path == path


@pytest.mark.parametrize("folder", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio(folder: str, home: Path, store: Store) -> None:
    _found(store, _plain(home / folder / "Owner/Some-GGUF/Some-Q4_K_M.gguf"), "LM Studio")


def test_lm_studio_with_a_folder_of_the_users_choice(home: Path, store: Store) -> None:
    settings = home / ".lmstudio" / "settings.json"
    settings.parent.mkdir()
    chosen = home / "big disk"
    settings.write_text(json.dumps({"downloadsFolder": str(chosen)}), encoding="utf-8")
    _found(store, _plain(chosen / "Owner/Some-GGUF/Some-Q4_K_M.gguf"), "LM Studio")


def test_llama_cpp(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(home / "lc"))
    _found(store, _plain(home / "lc" / "Owner_Some-GGUF_Some-Q4_K_M.gguf"), "llama.cpp")


def test_newer_llama_cpp_keeps_the_hubs_layout(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(home / "lc"))
    _found(store, _hub_cache(home / "lc"), "llama.cpp")


@pytest.mark.parametrize("sha256", [None, SHA256])
def test_ollama(sha256: str | None, home: Path, store: Store) -> None:
    _found(store, _ollama(home / ".ollama" / "models"), "Ollama", sha256)


def test_size_that_differs_does_not_count(home: Path, store: Store) -> None:
    _plain(home / ".lmstudio/models/Owner/Some-GGUF/Some-Q4_K_M.gguf")
    assert isinstance(_locate(store, size=len(CONTENT) + 1), Missing)
    assert isinstance(_locate(store, size=len(CONTENT)), LocalFile)


def test_dangling_links_and_broken_manifests_are_passed_over(home: Path, store: Store) -> None:
    link = _hub_cache(home / ".cache" / "huggingface" / "hub")
    link.resolve().unlink()
    manifest = home / ".ollama/models/manifests/hf.co/Owner/Some-GGUF/Q4_K_M"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"layers": 3}', encoding="utf-8")
    assert isinstance(_locate(store), Missing)


def test_everything_is_listed_once_with_whose_it_is(home: Path, paths: Paths) -> None:
    _hub_cache(home / ".cache" / "huggingface" / "hub")
    _plain(home / ".lmstudio/models/Owner/Other-GGUF/Other-Q8_0.gguf")
    _plain(home / ".lmstudio/models/Owner/Other-GGUF/mmproj-F16.gguf")
    _plain(paths.models / "mine.gguf")
    found = {(model.name, model.found_in) for model in local_models(paths)}
    assert found == {
        ("Owner/Some-GGUF/Some-Q4_K_M.gguf", "Hub cache"),
        ("Owner/Other-GGUF/Other-Q8_0.gguf", "LM Studio"),
        (str(paths.models / "mine.gguf"), "localspec"),
    }


@pytest.mark.parametrize("quant", [None, "Q4_K_M", "q4_k_m"])
@pytest.mark.parametrize(
    ("place", "program"),
    [
        (".lmstudio/models/Owner/Some-GGUF/Some-Q4_K_M.gguf", "LM Studio"),
        (".cache/lm-studio/models/Owner/Some-GGUF/Some-Q4_K_M.gguf", "LM Studio"),
        ("lc/Owner_Some-GGUF_Some-Q4_K_M.gguf", "llama.cpp"),
    ],
)
def test_repository_and_quantisation_mean_the_file_that_is_there(
    place: str,
    program: str,
    quant: str | None,
    home: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(home / "lc"))
    path = _plain(home / place)
    located = _locate(store, source=HubSource("Owner/Some-GGUF", quant=quant))
    assert isinstance(located, LocalFile)
    assert (located.path, located.found_in) == (path, program)
    assert isinstance(_locate(store, source=HubSource("Owner/Some-GGUF", quant="Q8_0")), Missing)
    pinned = HubSource("Owner/Some-GGUF", revision="v2", quant=quant)
    assert isinstance(_locate(store, source=pinned), Missing)


def test_flat_name_of_a_longer_repository_is_no_file_of_a_shorter(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(home / "lc"))
    _plain(home / "lc" / "Owner_Some_Thing-GGUF_Thing-Q4_K_M.gguf")
    assert isinstance(_locate(store, source=HubSource("Owner/Some")), Missing)
    assert isinstance(_locate(store, source=HubSource("Owner/Some_Thing-GGUF")), LocalFile)
