"""What a head would add is told and not counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localspec.cli.app import run_program
from localspec.cli.fit_head import head_kv_bytes
from localspec.ggufmeta.header import read_header
from localspec.memory.request import LoadOptions
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import write_tiny

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pair `mine` of this target with a head that is one of the tiny models."""
    home = tmp_path / "home"
    monkeypatch.setenv("LOCALSPEC_HOME", str(home))
    path = write_tiny(tmp_path / "target.gguf", "llama")
    head = write_tiny(tmp_path / "head.gguf", "llama", n_layer=1)
    (home / "config").mkdir(parents=True)
    (home / "config" / "models.toml").write_text(
        f"""schema = 1
[models.t]
path = '{path}'
[models.h]
name = "My head"
path = '{head}'
[pairs.mine]
method = "dflash"
target = "t"
draft = "h"
""",
        encoding="utf-8",
    )
    return path


def fit(capsys: Shown, name: str, *options: str) -> dict[str, Any]:
    assert run_program(["fit", name, "--json", "--vram", "1GiB", "--ctx", "512", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_heads_weights_and_cache_are_told_beside_the_verdict(target: Path, capsys: Shown) -> None:
    header = read_header(target.parent / "head.gguf")
    found = fit(capsys, "mine")
    assert found["head"] == {
        "method": "dflash",
        "name": "My head",
        "weights": header.tensor_bytes,
        # One layer: 512 cells of four heads of 16 values, K and V, two bytes each.
        "kv": 512 * 4 * 16 * 2 * 2,
    }
    alone = fit(capsys, str(target))
    assert alone["head"] is None
    assert found["devices"] == alone["devices"], "what nothing loads is not counted"
    assert run_program(["fit", "mine", "--vram", "1GiB"]) == 0
    assert "not counted: the dflash head, which is not built yet, would add " in (
        capsys.readouterr().out
    )


def test_a_head_that_cannot_be_read_keeps_no_answer_from_coming(
    target: Path, capsys: Shown
) -> None:
    (target.parent / "head.gguf").write_bytes(b"no model")
    assert fit(capsys, "mine")["head"] is None


def test_next_token_blocks_count_their_own_layers_only(tmp_path: Path) -> None:
    header = read_header(write_ghost_of("glm-4.5-air", tmp_path / "nextn.gguf"))
    kv = head_kv_bytes(header, 4096, LoadOptions())
    whole = header.metadata["glm4moe.block_count"]
    assert kv is not None
    assert isinstance(whole, int)
    per_layer = 4096 * 8 * 128 * 2 * 2
    assert kv == per_layer < per_layer * whole
