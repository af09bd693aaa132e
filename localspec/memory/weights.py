"""Bytes of weights by device, exact: the sizes of the tensors and where llama.cpp puts them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil

from localspec.ggufmeta.header import TensorInfo
from localspec.memory.placement import Placement
from localspec.memory.request import ModelLoad

_EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
"""Tensors of experts, as llama.cpp names them (common.h LLM_FFN_EXPS_REGEX)."""
_INPUT = frozenset({"token_embd", "token_types", "position_embd", "per_layer_token_embd"})
"""Looked up, not multiplied: they stay in host memory (llama-arch.cpp LLM_TENSOR_LAYER_INPUT)."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on each device; GPUs first, the host last."""

    by_device: tuple[int, ...]
    experts: tuple[int, ...]
    """How much of that belongs to experts."""
    unused: int
    """Bytes of the file that are not loaded (next-token-prediction blocks)."""


def weights(load: ModelLoad, placement: Placement) -> Weights:
    """Where the bytes of `load` go."""
    by_device = [0] * (placement.host + 1)
    experts = [0] * (placement.host + 1)
    unused = 0
    names = {tensor.name for tensor in load.header.tensors}
    for tensor in load.header.tensors:
        layer = layer_of(tensor)
        nbytes = _nbytes(load, tensor)
        if layer is not None and layer >= load.architecture.n_layer and not load.with_nextn:
            unused += nbytes
            continue
        device = _device(load, placement, tensor, layer)
        by_device[device] += nbytes
        if is_expert(tensor):
            experts[device] += nbytes
        if (
            tensor.name == "token_embd.weight"
            and "output.weight" not in names
            and placement.output != placement.host
        ):
            # Tied embeddings are looked up on the host and multiplied on the GPU: two copies.
            by_device[placement.output] += nbytes
    return Weights(tuple(by_device), tuple(experts), unused)


def largest_left_on_host(load: ModelLoad, placement: Placement) -> int:
    """Bytes of the largest matrix of a layer in host memory.

    With some layers on a GPU, long passes over the others are computed there too, and each of
    their matrices is copied into the GPU's compute buffer (ggml-backend.cpp, op offload).
    """
    sizes = [
        _nbytes(load, tensor)
        for tensor in load.header.tensors
        if (layer := layer_of(tensor)) is not None
        and layer < load.architecture.n_layer
        and len(tensor.shape) > 1
        and _device(load, placement, tensor, layer) == placement.host
    ]
    return max(sizes, default=0)


def layer_of(tensor: TensorInfo) -> int | None:
    """The block a tensor belongs to; None outside the blocks."""
    if not tensor.name.startswith("blk."):
        return None
    number = tensor.name.split(".", 2)[1]
    return int(number) if number.isdecimal() else None


def is_expert(tensor: TensorInfo) -> bool:
    """Whether a tensor holds experts, of which each token uses only a few."""
    return _EXPERTS.search(tensor.name) is not None


def _nbytes(load: ModelLoad, tensor: TensorInfo) -> int:
    return tensor.nbytes if load.weight_scale == 1.0 else ceil(tensor.nbytes * load.weight_scale)


def _device(load: ModelLoad, placement: Placement, tensor: TensorInfo, layer: int | None) -> int:
    if layer is None:
        base = tensor.name.split(".", 1)[0]
        return placement.host if base in _INPUT else placement.output
    if layer >= len(placement.layers):
        return placement.output
    if layer < load.experts_on_cpu and is_expert(tensor):
        return placement.host
    return placement.layers[layer]
