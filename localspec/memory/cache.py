"""Bytes of the KV cache and of recurrent states by device.

Formulas of llama-kv-cache.cpp, llama-kv-cache-iswa.cpp and llama-memory-recurrent.cpp.
"""

from __future__ import annotations

from localspec.ggufmeta.architecture import Layer
from localspec.ggufmeta.ggml_types import BY_NAME, GgmlType
from localspec.memory.graph.mixers import state_bytes
from localspec.memory.placement import Placement
from localspec.memory.request import ModelLoad


def kv_bytes(load: ModelLoad, placement: Placement) -> tuple[int, ...]:
    """(n_devices,) K and V of every layer that has a cache of its own, on the layer's device."""
    found = [0] * (placement.host + 1)
    for layer in load.architecture.trunk:
        found[placement.layers[layer.index]] += layer_kv_bytes(load, layer)
    return tuple(found)


def nextn_kv_bytes(load: ModelLoad, placement: Placement) -> tuple[int, ...]:
    """(n_devices,) the same of the next-token-prediction blocks, in a context of their own."""
    found = [0] * (placement.host + 1)
    for layer in load.architecture.layers[load.architecture.n_layer :]:
        found[placement.layers[layer.index]] += layer_kv_bytes(load, layer)
    return tuple(found)


def layer_kv_bytes(load: ModelLoad, layer: Layer) -> int:
    """cells × (row of K + row of V); no V for latent attention, whose V is part of K."""
    if not layer.attends or layer.reads_kv_of is not None:
        return 0
    kind = BY_NAME[load.kv_type]
    cells = load.cells_swa if layer.is_swa else load.cells
    row = _row(kind, layer.n_head_kv * layer.head_k)
    if not load.architecture.is_mla:
        width = layer.n_head_kv * layer.head_v
        if load.flash_attn is False:
            # A transposed V cache has the width of the widest layer.
            width = max(
                other.n_head_kv * other.head_v
                for other in load.architecture.layers
                if other.attends
            )
        row += _row(kind, width)
    return cells * row


def recurrent_bytes(load: ModelLoad, placement: Placement) -> tuple[int, ...]:
    """(n_devices,) convolution and state of every recurrent layer, rollback rows included."""
    found = [0] * (placement.host + 1)
    state = load.architecture.recurrent
    if state is None:
        return tuple(found)
    row = state_bytes(state.conv, state.state) * load.rows_of_state
    for layer in load.architecture.trunk:
        if layer.is_recurrent:
            found[placement.layers[layer.index]] += row
    return tuple(found)


def _row(kind: GgmlType, width: int) -> int:
    # Rows that blocks do not fill are refused by llama.cpp later; the estimate rounds up.
    return kind.row_size(-(-width // kind.block) * kind.block)
