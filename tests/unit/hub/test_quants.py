"""Which file of a repository is meant."""

from __future__ import annotations

import pytest

from localspec.hub.quants import RepoFile, choose, part_names, variants, with_quant

GB = 10**9


def _files(*names: str, size: int = GB) -> list[RepoFile]:
    return [RepoFile(name, size, None) for name in names]


REPO = [
    RepoFile("m-Q2_K.gguf", 3 * GB, None),
    RepoFile("m-Q4_K_M.gguf", 5 * GB, None),
    RepoFile("m-UD-Q4_K_XL.gguf", 5 * GB + 1, None),
    RepoFile("m-Q6_K.gguf", 7 * GB, None),
    RepoFile("m-Q8_0-00001-of-00002.gguf", 5 * GB, None),
    RepoFile("m-Q8_0-00002-of-00002.gguf", 4 * GB, None),
    RepoFile("m-BF16.gguf", 16 * GB, None),
    RepoFile("mmproj-m-F16.gguf", GB, None),
    RepoFile("imatrix.gguf", GB, None),
    RepoFile("mtp-m-Q4_0.gguf", GB, None),
    RepoFile("README.md", 1, None),
]


def test_parts_are_put_together_and_strangers_left_out() -> None:
    found = variants(REPO)
    assert [v.path for v in found if len(v.files) == 2] == ["m-Q8_0-00001-of-00002.gguf"]
    assert not [v for v in found if v.path.startswith(("mmproj", "imatrix", "README"))]


def test_split_file_without_all_its_parts_does_not_count() -> None:
    assert variants(_files("m-Q8_0-00001-of-00002.gguf")) == []


@pytest.mark.parametrize(
    ("budget", "path"),
    [
        (None, "m-Q4_K_M.gguf"),
        (4 * GB, "m-Q2_K.gguf"),
        (6 * GB, "m-UD-Q4_K_XL.gguf"),
        (8 * GB, "m-Q6_K.gguf"),
        (100 * GB, "m-Q8_0-00001-of-00002.gguf"),
        (GB // 2, "m-Q2_K.gguf"),
    ],
)
def test_choice_by_memory(budget: int | None, path: str) -> None:
    chosen = choose(variants(REPO), budget)
    assert chosen is not None
    assert chosen.path == path


def test_unquantised_is_chosen_only_when_there_is_nothing_else() -> None:
    chosen = choose(variants(_files("m-BF16.gguf")), 100 * GB)
    assert chosen is not None
    assert chosen.path == "m-BF16.gguf"


def test_a_head_is_never_chosen_as_a_model() -> None:
    assert choose(variants(_files("mtp-m-Q4_0.gguf", "dflash-kquant.gguf"))) is None


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4_k_m", "m-Q4_K_M.gguf"),
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("ud-q4_k_xl", "m-UD-Q4_K_XL.gguf"),
        ("Q8_0", "m-Q8_0-00001-of-00002.gguf"),
        ("Q4_0", "mtp-m-Q4_0.gguf"),
        ("Q5_K_M", None),
        ("m-", None),
    ],
)
def test_quantisation_asked_for(asked: str, path: str | None) -> None:
    found = with_quant(variants(REPO), asked)
    assert (found.path if found else None) == path


def test_part_names_of_any_part() -> None:
    names = ("x-00001-of-00003.gguf", "x-00002-of-00003.gguf", "x-00003-of-00003.gguf")
    assert part_names(names[1]) == names
    assert part_names("x.gguf") == ("x.gguf",)
