"""models.toml says what was published: every name, hash, size and setting, and nothing is lost.

The facts were collected from the LocalAI gallery (MIT) in 2026; a null was not seen there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localspec.catalog.entries import CatalogModel, HubSource, WheelSource
from localspec.catalog.load import Catalog, load_catalog
from localspec.paths import Paths

FACTS: dict[str, Any] = json.loads(
    Path(__file__).with_name("catalogue_facts.json").read_text(encoding="utf-8")
)
PAIRS: dict[str, dict[str, Any]] = {pair["id"]: pair for pair in FACTS["pairs"]}
WHEELS: dict[str, dict[str, Any]] = {wheel["id"]: wheel for wheel in FACTS["wheels"]}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return load_catalog(Paths(tmp_path, tmp_path, tmp_path))


def _as_fact(model: CatalogModel | None) -> dict[str, Any] | None:
    if model is None:
        return None
    assert isinstance(model.source, HubSource)
    return {
        "repo": model.source.repo,
        "filename": model.source.filename,
        "sha256": model.sha256,
    }


@pytest.mark.parametrize("pair_id", PAIRS)
def test_pair_is_as_published(pair_id: str, catalog: Catalog) -> None:
    fact, pair = PAIRS[pair_id], catalog.pair(pair_id)
    assert _as_fact(pair.target) == fact["target"]
    assert _as_fact(pair.draft) == fact.get("draft")
    assert pair.method == fact["method"]
    assert pair.draft_max == fact.get("draft_max")
    assert pair.p_min == fact.get("p_min")
    assert pair.note == fact.get("note", "")
    if "reported" in fact:
        assert pair.reported is not None
        assert pair.reported.figure in fact["reported"]
        assert pair.reported.source == "unnamed report" or (
            pair.reported.source in fact["reported"]
        )
    else:
        assert pair.reported is None


@pytest.mark.parametrize("model_id", WHEELS)
def test_wheel_is_as_published(model_id: str, catalog: Catalog) -> None:
    fact, model = WHEELS[model_id], catalog.pair(model_id).target
    assert isinstance(model.source, WheelSource)
    assert [part.requirement for part in model.source.parts] == fact["wheels"]
    assert (model.size, model.sha256, model.license) == (
        fact["size"],
        fact["sha256"],
        fact["license"],
    )
    pattern = fact["member"].removesuffix(", joined in order")
    expected = [
        pattern.replace("{i-1}", str(index)).replace("{i}", str(index + 1))
        for index in range(len(fact["wheels"]))
    ]
    assert [part.member for part in model.source.parts] == expected


def test_catalogue_has_nothing_else(catalog: Catalog) -> None:
    assert set(catalog.pairs) == set(PAIRS) | set(WHEELS)


def test_every_model_belongs_to_a_pair(catalog: Catalog) -> None:
    used = {m.id for p in catalog.pairs.values() for m in (p.target, p.draft) if m is not None}
    assert used == set(catalog.models)


def test_every_model_has_a_name_of_its_own(catalog: Catalog) -> None:
    names = [model.name for model in catalog.models.values()]
    assert all(names)
    assert len(set(names)) == len(names)
