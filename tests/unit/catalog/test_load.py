"""The user's models.toml: what it may change, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localspec.catalog.entries import HubSource, PathSource
from localspec.catalog.load import build_catalog, load_catalog
from localspec.errors import ConfigError, UsageError
from localspec.paths import Paths

HASH = "0123456789abcdef" * 4


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path, tmp_path / "data", tmp_path / "cache")


def _write(paths: Paths, text: str) -> None:
    paths.user_catalog.write_text(text, encoding="utf-8")


def test_user_pair_is_added(paths: Paths) -> None:
    _write(
        paths,
        """
        [models.mine]
        path = "models/mine.gguf"
        [pairs.mine]
        method = "ngram"
        target = "mine"
        """,
    )
    pair = load_catalog(paths).pair("mine")
    assert pair.user
    assert pair.target.source == PathSource(paths.config / "models/mine.gguf")


def test_single_key_is_overridden_and_the_rest_stays(paths: Paths) -> None:
    plain = load_catalog(paths).pair("qwen3-32b+0.6b")
    _write(paths, '[pairs."qwen3-32b+0.6b"]\ndraft_max = 5\n')
    pair = load_catalog(paths).pair("qwen3-32b+0.6b")
    assert pair.draft_max == 5
    assert (pair.target, pair.draft, pair.method) == (plain.target, plain.draft, plain.method)
    assert pair.user
    assert not plain.user


def test_another_file_drops_the_hash_of_the_old_one(paths: Paths) -> None:
    _write(paths, '[models."qwen3-32b-q4_k_m"]\nfilename = "Qwen_Qwen3-32B-Q5_K_M.gguf"\n')
    model = load_catalog(paths).models["qwen3-32b-q4_k_m"]
    assert model.source == HubSource("bartowski/Qwen_Qwen3-32B-GGUF", "Qwen_Qwen3-32B-Q5_K_M.gguf")
    assert model.sha256 is None
    assert model.shown == "Qwen_Qwen3-32B-Q5_K_M"


def test_path_in_place_of_a_repository(paths: Paths) -> None:
    _write(paths, '[models."qwen3-32b-q4_k_m"]\npath = "/models/q.gguf"\n')
    model = load_catalog(paths).models["qwen3-32b-q4_k_m"]
    assert model.source == PathSource(Path("/models/q.gguf"))


def test_pair_may_turn_to_ngram(paths: Paths) -> None:
    _write(paths, '[pairs."qwen3-32b+0.6b"]\nmethod = "ngram"\n')
    assert load_catalog(paths).pair("qwen3-32b+0.6b").draft is None


def test_all_problems_at_once_with_key_path_and_nearest_spelling(paths: Paths) -> None:
    _write(
        paths,
        """
        [models.a]
        repo = "owner/name"
        filname = "a.gguf"
        sha256 = "XYZ"
        [models.b]
        repo = "no-slash"
        [pairs.p]
        method = "drafft"
        target = "aa"
        [pairs.q]
        method = "draft"
        target = "a"
        draft = "qwen3-0.6b-q4_k"
        draft_max = 0
        [pears.x]
        """,
    )
    with pytest.raises(ConfigError) as caught:
        load_catalog(paths)
    problems = {p["key"]: p["problem"] for p in caught.value.fields["problems"]}
    assert set(problems) == {
        "models.a.filname",
        "models.a.sha256",
        "models.b.repo",
        "pairs.p.method",
        "pairs.p.target",
        "pairs.q.draft",
        "pairs.q.draft_max",
        "pears",
    }
    assert "'filename'" in problems["models.a.filname"]
    assert "'draft'" in problems["pairs.p.method"]
    assert "'qwen3-0.6b-q4_k_m'" in problems["pairs.q.draft"]
    assert "'pairs'" in problems["pears"]
    first, *lines = caught.value.message.splitlines()
    assert first == f"{paths.user_catalog} has {len(problems)} problems:"
    assert lines == [f"{key}: {problem}" for key, problem in problems.items()]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "repo, wheels and path"),
        ({"repo": "a/b", "path": "x"}, "repo and path"),
        ({"wheels": [{"requirement": "x==1", "member": "m"}]}, "filename"),
        (
            {"wheels": [{"requirement": "x==1", "member": "m"}], "filename": "f"},
            "sha256 and size",
        ),
        ({"path": "x", "filename": "f"}, "path stands alone"),
        ({"repo": "a/b", "size": -1}, "-1"),
        ({"repo": "a/b", "size": "big"}, "whole number"),
        ({"repo": "a/b", "sha256": HASH.upper()}, "sha256"),
        ({"repo": "../b"}, "repository"),
        ({"wheels": [{"requirement": "--index-url=x", "member": "m"}]}, "requirement"),
        ({"wheels": [{"requirement": "x>=1", "member": "m"}]}, "requirement"),
        ({"wheels": []}, "wheels"),
    ],
)
def test_model_that_cannot_be_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_catalog({"schema": 1, "models": {"m": table}})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"method": "draft", "target": "m"}, "needs a draft"),
        ({"method": "ngram", "target": "m", "draft": "m"}, "no draft"),
        ({"target": "m"}, "method.*missing"),
        ({"method": "ngram"}, "target.*missing"),
        ({"method": "draft", "target": "m", "draft": "m", "p_min": 1.5}, "p_min"),
    ],
)
def test_pair_that_cannot_be_is_refused(table: dict[str, Any], said: str) -> None:
    data = {"schema": 1, "models": {"m": {"repo": "a/b"}}, "pairs": {"p": table}}
    with pytest.raises(ConfigError, match=said):
        build_catalog(data)


@pytest.mark.parametrize("text", ["[models", "schema = 2", "schema = true", "models = 3"])
def test_file_of_another_kind_is_one_line(text: str, paths: Paths) -> None:
    _write(paths, text)
    with pytest.raises(ConfigError) as caught:
        load_catalog(paths)
    assert "\n" not in caught.value.message


def test_file_that_is_not_text_is_one_line(paths: Paths) -> None:
    paths.user_catalog.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_catalog(paths)


@pytest.mark.parametrize("written", ["Qwen3-8B+0.6B", " qwen3-8b + 0.6b "])
def test_case_and_blanks_do_not_matter(written: str, paths: Paths) -> None:
    assert load_catalog(paths).pair(written).id == "qwen3-8b+0.6b"


def test_unknown_pair_suggests_the_nearest(paths: Paths) -> None:
    with pytest.raises(UsageError) as caught:
        load_catalog(paths).pair("qwen3-8b+0.5b")
    assert "'qwen3-8b+0.6b'" in caught.value.hint
