"""What the user may write for MODEL, and what it is taken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.catalog.entries import HubSource
from localspec.catalog.load import Catalog, load_catalog
from localspec.errors import BadModelFile, UsageError
from localspec.hub.names import HubName, PairName, PathName, looks_like_quant, parse_name, quant_in
from localspec.hub.resolve import LocalFile, Missing, resolve
from localspec.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


@pytest.fixture
def catalog(paths: Paths) -> Catalog:
    return load_catalog(paths)


HUB = {
    "owner/repo": HubSource("owner/repo"),
    "owner/repo:Q4_K_M": HubSource("owner/repo", quant="Q4_K_M"),
    "owner/repo:q4_k_m": HubSource("owner/repo", quant="q4_k_m"),
    "owner/repo:file.gguf": HubSource("owner/repo", "file.gguf"),
    "owner/repo/file.gguf": HubSource("owner/repo", "file.gguf"),
    "owner/repo/Q4/file-00001-of-00002.gguf": HubSource(
        "owner/repo", "Q4/file-00001-of-00002.gguf"
    ),
    "owner/repo@v1.0": HubSource("owner/repo", revision="v1.0"),
    "owner/repo@v1:Q8_0": HubSource("owner/repo", revision="v1", quant="Q8_0"),
    "owner/repo:Q8_0@v1": HubSource("owner/repo", revision="v1", quant="Q8_0"),
    "owner/repo/file.gguf@refs/pr/1": HubSource("owner/repo", "file.gguf", "refs/pr/1"),
    "hf.co/owner/repo:Q8_0": HubSource("owner/repo", quant="Q8_0"),
    "hf:owner/repo": HubSource("owner/repo"),
    "https://huggingface.co/owner/repo": HubSource("owner/repo"),
    "https://huggingface.co/owner/repo/blob/main/f.gguf": HubSource("owner/repo", "f.gguf"),
    "https://huggingface.co/owner/repo/resolve/v2/d/f.gguf?download=true": HubSource(
        "owner/repo", "d/f.gguf", "v2"
    ),
}


@pytest.mark.parametrize("text", HUB)
def test_place_on_the_hub(text: str, catalog: Catalog) -> None:
    assert parse_name(text, catalog) == HubName(HUB[text])


@pytest.mark.parametrize(
    "text", ["/x/y.gguf", "./y.gguf", "../y", "~/y.gguf", "y.gguf", "x/y.gguf", "C:\\x\\y.gguf"]
)
def test_path(text: str, catalog: Catalog) -> None:
    assert parse_name(text, catalog) == PathName(Path(text).expanduser())


def test_existing_file_wins_over_the_hub(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("owner/repo/file.gguf")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert parse_name(str(file), catalog) == PathName(file)


def test_pair_wins_over_everything(catalog: Catalog) -> None:
    assert parse_name("SmolLM2-135M", catalog) == PairName("smollm2-135m")


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "qwen3", "a/b/../c", "a b/c", "-x/y"])
def test_what_is_none_of_them_is_a_usage_error(text: str, catalog: Catalog, paths: Paths) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(text, catalog, paths)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_near_miss_suggests_pairs(catalog: Catalog, paths: Paths) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("smollm-135m", catalog, paths)
    assert "'smollm2-135m'" in caught.value.hint


def test_missing_path_is_a_bad_model_file(catalog: Catalog, paths: Paths) -> None:
    with pytest.raises(BadModelFile, match="no such file") as caught:
        resolve("/nowhere/at-all.gguf", catalog, paths)
    assert caught.value.exit_code == 6


def test_folder_is_a_bad_model_file(catalog: Catalog, paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match="folder"):
        resolve(str(tmp_path), catalog, paths)


def test_path_resolves_to_itself(catalog: Catalog, paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"12345")
    resolved = resolve(str(file), catalog, paths)
    assert isinstance(resolved.target, LocalFile)
    assert (resolved.target.path, resolved.target.size) == (file, 5)
    assert (resolved.method, resolved.draft) == ("ngram", None)


def test_pair_resolves_to_what_is_missing(catalog: Catalog, paths: Paths) -> None:
    resolved = resolve("gemma-4-12b+mtp", catalog, paths)
    assert resolved.method == "ngram"
    assert resolved.draft is None
    assert "mtp drafter is not built yet" in resolved.notes[0]
    assert (resolved.draft_max, resolved.p_min) == (6, 0.75)
    draft = resolve("qwen3-8b+0.6b", catalog, paths)
    assert draft.method == "draft"
    assert isinstance(draft.draft, Missing)
    assert [role for role, _ in draft.missing] == ["target", "draft"]


@pytest.mark.parametrize(
    ("filename", "quant"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("Qwen3-0.6B.Q4_K_M.gguf", "Q4_K_M"),
        ("llama-3.2-1b-instruct-q8_0.gguf", "Q8_0"),
        ("gemma-4-12B-it-qat-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("x-IQ2_XXS.gguf", "IQ2_XXS"),
        ("BF16/x-BF16-00001-of-00002.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("x-f16.gguf", "F16"),
        ("Q4_K_M/model.gguf", None),
        ("Qwen3-8B.gguf", None),
    ],
)
def test_quantisation_in_a_file_name(filename: str, quant: str | None) -> None:
    assert quant_in(filename) == quant
    assert quant is None or looks_like_quant(quant)
