"""Bytes of compute and output buffers by device."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from localspec.ggufmeta.architecture import Architecture
from localspec.memory.cache import layer_kv_bytes
from localspec.memory.graph.allocator import buffer_sizes
from localspec.memory.graph.builder import Batch, GraphUnknownError
from localspec.memory.graph.model import build_graph
from localspec.memory.graph.nextn import build_nextn_graph
from localspec.memory.graph.splits import add_copies
from localspec.memory.placement import Placement
from localspec.memory.request import ModelLoad
from localspec.memory.weights import largest_left_on_host

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]
_ALIGNMENT = 32
_GPU_ALIGNMENT = 128
_OFFLOADED_TOKENS = 32
"""From here on a pass goes to a card that holds no weights (ggml's op_offload_min_batch_size)."""


def compute_bytes(load: ModelLoad, placement: Placement) -> tuple[int, ...]:
    """(n_devices,) the compute buffers of the largest pass; GPUs first, the host last."""
    batch = batch_of(load)
    if placement.host and not placement.on_gpu:
        return _long_passes_on_card(load, placement, batch)
    layers = placement.layers[: load.architecture.n_layer]
    sizes = list(_sizes_at(load, batch, (*layers, placement.output), placement.host))
    if placement.is_partial or (load.experts_on_cpu and placement.on_gpu):
        busiest = min(device for device in (*placement.layers, placement.output))
        sizes[busiest] += _largest_copy(load, placement)
    return tuple(sizes)


def _long_passes_on_card(load: ModelLoad, placement: Placement, batch: Batch) -> tuple[int, ...]:
    """The buffers of a model that is wholly in host memory on a machine with a card.

    llama.cpp computes what multiplies weights with 32 tokens or more on the first card even then:
    each matrix is copied there for its turn, and so are the keys and values attention reads
    (ggml-backend.cpp backend_id_from_cur, op_offload; ggml-cuda.cu offload_op). The rows of logits
    are fewer than that and stay on the host, as shorter passes do. Not held against a probe: the
    sizes follow from the scheduler's source.
    """
    host, n_layer = placement.host, load.architecture.n_layer
    on_host = (host,) * (n_layer + 1)
    if batch.n_tokens < _OFFLOADED_TOKENS:
        return _sizes_at(load, batch, on_host, host)
    long = list(_sizes_at(load, batch, (*(0,) * n_layer, host), host))
    long[0] += _largest_copy(load, placement)
    short = _sizes_at(load, replace(batch, n_tokens=_OFFLOADED_TOKENS - 1), on_host, host)
    long[-1] = max(long[-1], short[-1])
    return tuple(long)


def _largest_copy(load: ModelLoad, placement: Placement) -> int:
    """Bytes of what is copied to a card at a time: a matrix, or keys and values of a layer."""
    caches = (
        layer_kv_bytes(load, layer)
        for layer in load.architecture.trunk
        if placement.layers[layer.index] == placement.host
    )
    return max(largest_left_on_host(load, placement), *caches, 0)


def _sizes_at(
    load: ModelLoad, batch: Batch, devices: tuple[int, ...], host: int
) -> tuple[int, ...]:
    shapes = tuple((tensor.name, tensor.shape) for tensor in load.header.tensors)
    return _sizes(load.architecture, shapes, batch, devices, host)


def nextn_compute_bytes(load: ModelLoad, placement: Placement) -> tuple[int, ...]:
    """(n_devices,) the compute buffers of the next-token-prediction context."""
    shapes = {tensor.name: tensor.shape for tensor in load.header.tensors}
    batch, host = batch_of(load), placement.host
    device = placement.layers[load.architecture.n_layer]
    try:
        graph = build_nextn_graph(load.architecture, shapes, batch, device, host)
    except GraphUnknownError:
        return _coarse(load.architecture, batch, (device,), host)
    if host:
        graph = add_copies(graph, host)
    return tuple(buffer_sizes(graph, host + 1, _GPU_ALIGNMENT if host else _ALIGNMENT))


def output_bytes(load: ModelLoad) -> int:
    """The rows of logits a pass hands over, in host memory (llama-context.cpp output_reserve)."""
    return load.architecture.n_vocab * max(load.n_outputs, load.n_seq) * 4


def batch_of(load: ModelLoad) -> Batch:
    """The pass that llama.cpp reserves for (llama-context.cpp sched_reserve)."""
    return Batch(
        n_tokens=load.ubatch,
        n_outputs=min(load.n_outputs, load.ubatch),
        cells=load.cells,
        cells_swa=load.cells_swa,
        flash_attn=load.flash_attn is not False,
        kv_type_k=load.kv_type,
        kv_type_v=load.kv_type,
        rollback_rows=load.rows_of_state // load.n_seq - 1,
        n_seq=load.n_seq,
    )


@lru_cache(maxsize=512)
def _sizes(
    architecture: Architecture, shapes: _Shapes, batch: Batch, devices: tuple[int, ...], host: int
) -> tuple[int, ...]:
    try:
        graph = build_graph(architecture, dict(shapes), batch, devices, host)
    except GraphUnknownError:
        return _coarse(architecture, batch, devices, host)
    if host:
        graph = add_copies(graph, host)
    return tuple(buffer_sizes(graph, host + 1, _GPU_ALIGNMENT if host else _ALIGNMENT))


def _coarse(
    architecture: Architecture, batch: Batch, devices: tuple[int, ...], host: int
) -> tuple[int, ...]:
    """An upper guess for a model whose graph is not known: everything wide alive at once."""
    widest = max((layer.n_ff for layer in architecture.layers), default=0)
    widest = max(widest, architecture.n_ff_exp * architecture.n_expert_used)
    heads = max((layer.n_head for layer in architecture.layers), default=0)
    per_token = 8 * architecture.n_embd + 3 * widest
    size = 4 * batch.n_tokens * per_token + 4 * batch.n_outputs * architecture.n_vocab
    size += batch.n_tokens * batch.cells * (2 if batch.flash_attn else 4 * (1 + heads))
    sizes = [0] * (host + 1)
    for device in {*devices, host}:
        sizes[device] = size
    if host:
        sizes[host] = 8 * batch.n_tokens * architecture.n_embd
    return tuple(sizes)
