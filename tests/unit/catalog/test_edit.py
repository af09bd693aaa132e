"""`pair add` changes what it must in the user's models.toml, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.catalog.edit import NewPair, add_pair, model_id
from localspec.catalog.entries import CatalogModel, HubSource, PathSource
from localspec.catalog.load import load_catalog
from localspec.errors import ConfigError, UsageError
from localspec.paths import Paths

TARGET = CatalogModel("big", HubSource("owner/big-GGUF", "big-Q4_K_M.gguf", "v1"))
DRAFT = CatalogModel("small", PathSource(Path("/models/small.gguf")))

WRITTEN = """\
# my models, do not touch
schema = 1

[models.old]   # an old friend
repo = "owner/old"

[pairs.old]
method = "ngram"
target = "old"
draft_max = 12 # found by trying
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


def test_first_pair_makes_a_file_that_loads(paths: Paths) -> None:
    add_pair(NewPair("mine", TARGET, DRAFT, 6, 0.5, "a note"), load_catalog(paths), paths)
    pair = load_catalog(paths).pair("mine")
    assert (pair.target, pair.draft) == (TARGET, DRAFT)
    assert (pair.method, pair.draft_max, pair.p_min, pair.note) == ("draft", 6, 0.5, "a note")


def test_comments_order_and_everything_else_stay(paths: Paths) -> None:
    paths.config.mkdir()
    paths.user_catalog.write_text(WRITTEN, encoding="utf-8")
    add_pair(NewPair("mine", TARGET, None), load_catalog(paths), paths)
    after = paths.user_catalog.read_text(encoding="utf-8")
    for line in WRITTEN.splitlines():
        assert line in after.splitlines()
    catalog = load_catalog(paths)
    assert catalog.pair("old").draft_max == 12
    assert catalog.pair("mine").method == "ngram"


def test_models_of_the_catalogue_are_named_and_not_copied(paths: Paths) -> None:
    catalog = load_catalog(paths)
    known = catalog.pair("qwen3-8b+0.6b")
    add_pair(NewPair("mine", known.target, known.draft), catalog, paths)
    assert "sha256" not in paths.user_catalog.read_text(encoding="utf-8")
    assert load_catalog(paths).pair("mine").target == known.target


def test_two_additions_live_together(paths: Paths) -> None:
    add_pair(NewPair("one", TARGET, DRAFT), load_catalog(paths), paths)
    add_pair(NewPair("two", TARGET, None), load_catalog(paths), paths)
    catalog = load_catalog(paths)
    assert catalog.pair("one").draft == DRAFT
    assert catalog.pair("two").draft is None


def test_a_taken_id_needs_force(paths: Paths) -> None:
    add_pair(NewPair("one", TARGET, DRAFT), load_catalog(paths), paths)
    with pytest.raises(UsageError, match="one"):
        add_pair(NewPair("ONE", TARGET, None), load_catalog(paths), paths)
    add_pair(NewPair("one", TARGET, None), load_catalog(paths), paths, replace=True)
    assert load_catalog(paths).pair("one").draft is None


def test_a_pair_that_would_not_load_is_never_written(paths: Paths) -> None:
    paths.config.mkdir()
    paths.user_catalog.write_text(WRITTEN, encoding="utf-8")
    with pytest.raises(ConfigError, match="draft_max"):
        add_pair(NewPair("mine", TARGET, None, draft_max=1000), load_catalog(paths), paths)
    assert paths.user_catalog.read_text(encoding="utf-8") == WRITTEN
    assert list(paths.config.iterdir()) == [paths.user_catalog]


def test_file_without_schema_gets_one(paths: Paths) -> None:
    paths.config.mkdir()
    paths.user_catalog.write_text('# mine\n[models.old]\nrepo = "a/b"\n', encoding="utf-8")
    add_pair(NewPair("mine", TARGET, None), load_catalog(paths), paths)
    assert "old" in load_catalog(paths).models
    assert "# mine" in paths.user_catalog.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Q4/My Model-Q4_K_M.gguf", "my-model-q4_k_m"),
        ("/x/Qwen3-0.6B.Q4_K_M.gguf", "qwen3-0.6b.q4_k_m"),
        ("C:\\models\\a.gguf", "a"),
        ("qwen3-0.6b-q4_k_m.gguf", "qwen3-0.6b-q4_k_m-2"),
        ("模型.gguf", "model"),
    ],
)
def test_id_of_a_new_model(name: str, expected: str, paths: Paths) -> None:
    assert model_id(name, load_catalog(paths)) == expected


@pytest.mark.parametrize(
    "pair_id", ["", "we ird", "we ird/../id", "..", "-x", "a/b", "a:b", "a\nb", "é", '"', "a b"]
)
@pytest.mark.parametrize("replace", [False, True])
def test_id_of_other_characters_is_refused_and_nothing_written(
    pair_id: str, replace: bool, paths: Paths
) -> None:
    catalog = load_catalog(paths)
    with pytest.raises(UsageError, match="cannot be the id") as caught:
        add_pair(NewPair(pair_id, TARGET, None), catalog, paths, replace=replace)
    assert caught.value.exit_code == 2
    assert "--id" in caught.value.hint
    assert not paths.user_catalog.exists()


def test_ids_of_the_catalogue_are_ids(paths: Paths) -> None:
    for pair_id in load_catalog(paths).pairs:
        catalog = load_catalog(paths)
        add_pair(NewPair(f"{pair_id}+mine_2.0", TARGET, None), catalog, paths)
