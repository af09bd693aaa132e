"""The estimate against llama.cpp's own figures, for real models and many settings.

`fit_table.json` says how each figure was obtained; `fit_generate.py` takes them again. The log
writes MiB with two decimals, so equal means equal to that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localspec.ggufmeta.architecture import read_architecture
from localspec.ggufmeta.header import Header, read_header
from localspec.memory.cache import kv_bytes, recurrent_bytes
from localspec.memory.compute import compute_bytes
from localspec.memory.placement import place
from localspec.memory.request import ModelLoad
from localspec.memory.weights import weights
from localspec.units import MIB
from tests.support.ghosts import MODELS, ghost_header, write_ghost_of

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("fit_table.json").read_text())
ROUNDING = int(0.0051 * MIB)
CACHES = 2
"""A model has at most two caches, each rounded by itself."""


def load_of(header: Header, row: list[Any]) -> ModelLoad:
    n_ctx, n_ubatch, kv_type, flash_attn = row[:4]
    return ModelLoad(
        role="target",
        header=header,
        architecture=read_architecture(header),
        n_ctx=n_ctx,
        n_ubatch=n_ubatch,
        n_outputs=17,
        kv_type=kv_type,
        flash_attn=flash_attn,
        rollback_rows=4,
    )


@pytest.mark.parametrize("name", ["lfm2-1.2b", "gpt-oss-20b", "mamba2-2.7b", "gemma-4-e4b"])
def test_headers_here_are_those_of_the_ghosts(name: str, tmp_path: Path) -> None:
    written, made = read_header(write_ghost_of(name, tmp_path / "g.gguf")), ghost_header(name)
    assert read_architecture(made) == read_architecture(written)
    assert made.tensors == written.tensors


def test_every_ghost_has_its_figures() -> None:
    assert set(TABLE["models"]) == set(MODELS)


@pytest.mark.parametrize("name", list(MODELS))
def test_estimate_equals_llama_cpp(name: str) -> None:
    golden, header = TABLE["models"][name], ghost_header(name)
    for row in golden["rows"]:
        load = load_of(header, row)
        placement = place(load, ())
        kv, recurrent, compute = row[4:]
        assert sum(weights(load, placement).by_device) == golden["weights"], row
        assert abs(sum(kv_bytes(load, placement)) - kv) <= CACHES * ROUNDING, row
        assert abs(sum(recurrent_bytes(load, placement)) - recurrent) <= ROUNDING, row
        estimated = sum(compute_bytes(load, placement))
        assert abs(estimated - compute) <= max(0.05 * compute, 8 * MIB), row
        total = golden["weights"] + kv + recurrent + compute
        ours = golden["weights"] + sum(kv_bytes(load, placement)) + recurrent + estimated
        assert abs(ours - total) <= 0.02 * total, row
