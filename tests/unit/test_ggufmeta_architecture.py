"""The typed view of real models' headers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.errors import BadModelFile
from localspec.ggufmeta.architecture import Architecture, RecurrentState, read_architecture
from localspec.ggufmeta.header import read_header
from tests.support.gguf_layouts import Dims, layout
from tests.support.ghosts import write_ghost_model, write_ghost_of

View = Callable[[str], Architecture]


@pytest.fixture
def view(tmp_path: Path) -> View:
    def read(name: str) -> Architecture:
        return read_architecture(read_header(write_ghost_of(name, tmp_path / "g.gguf")))

    return read


def test_every_sixth_layer_of_gemma3_sees_everything(view: View) -> None:
    found = view("gemma-3-27b")
    full = [layer.index for layer in found.layers if not layer.is_swa]
    assert full == list(range(5, 62, 6))
    assert found.n_swa == 1024


def test_gemma4_has_other_heads_where_it_slides_and_shares_caches(view: View) -> None:
    found = view("gemma-4-e4b")
    assert {(layer.is_swa, layer.head_k) for layer in found.layers} == {(True, 256), (False, 512)}
    shared = {layer.reads_kv_of for layer in found.layers[24:]}
    assert shared == {22, 23}
    assert all(layer.reads_kv_of is None for layer in found.layers[:24])


def test_hybrids_attend_in_few_layers(view: View) -> None:
    found = view("qwen3.5-27b")
    assert sum(layer.attends for layer in found.layers) == 16
    assert sum(layer.is_recurrent for layer in found.layers) == 48
    assert found.supports_rollback
    assert found.recurrent == RecurrentState(3 * (6144 + 2 * 16 * 128), 128 * 6144)
    granite = view("granite-4-h-small")
    assert [layer.index for layer in granite.layers if layer.attends] == [5, 15, 25, 35]
    assert not granite.supports_rollback


def test_recurrent_models_have_no_attention(view: View) -> None:
    found = view("mamba2-2.7b")
    assert not any(layer.attends for layer in found.layers)
    assert not found.supports_rollback


def test_next_token_blocks_come_after_the_trunk(view: View) -> None:
    found = view("qwen3.5-27b-nextn")
    assert (found.n_layer, found.n_nextn, len(found.layers)) == (64, 1, 65)
    assert found.layers[-1].is_nextn
    assert not found.layers[-1].is_recurrent


def test_latent_attention_is_known(view: View) -> None:
    found = view("deepseek-v3")
    assert found.is_mla
    assert found.layers[0].head_k == 576
    assert (found.n_expert, found.n_expert_used) == (256, 8)


def test_window_that_llama_cpp_ignores_is_ignored(tmp_path: Path) -> None:
    dims = Dims(4, 256, 512, 4, 4, 64, 320, 4096)
    shape = layout("phi3", dims)
    shape.keys["attention.sliding_window"] = 2047
    found = read_architecture(read_header(write_ghost_model(tmp_path / "p.gguf", shape, dims, "p")))
    assert found.n_swa == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("block_count", 0), ("block_count", 100_000), ("embedding_length", 0)],
)
def test_absurd_numbers_are_refused(key: str, value: int, tmp_path: Path) -> None:
    dims = Dims(2, 256, 512, 4, 4, 64, 320, 4096)
    shape = layout("llama", dims)
    shape.keys[key] = value
    header = read_header(write_ghost_model(tmp_path / "p.gguf", shape, dims, "p"))
    with pytest.raises(BadModelFile, match=key):
        read_architecture(header)


def test_short_list_of_heads_is_refused(tmp_path: Path) -> None:
    dims = Dims(4, 256, 512, 4, 4, 64, 320, 4096)
    shape = layout("llama", dims)
    shape.keys["attention.head_count_kv"] = [4, 4]
    header = read_header(write_ghost_model(tmp_path / "p.gguf", shape, dims, "p"))
    with pytest.raises(BadModelFile, match="for 4 layers"):
        read_architecture(header)
