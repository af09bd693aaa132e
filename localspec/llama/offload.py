"""Where the tensors of a model go: the fields of `llama_model_params` that decide it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from llama_cpp import llama_cpp as lib

from localspec.errors import EngineError
from localspec.llama.library import find_symbol

ALL_LAYERS = -1
"""`n_gpu_layers` for every layer (llama.h: a negative value means all)."""
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""Names of expert tensors, as llama.cpp's own --cpu-moe matches them (common.h)."""
_MOST_LAYERS = 512
"""LLAMA_MAX_LAYERS (llama-hparams.h): from here on every layer is meant."""


class BufferOverride(ctypes.Structure):
    """`llama_model_tensor_buft_override`, which the bindings leave out."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p))


def set_offload(
    params: lib.llama_model_params,
    *,
    gpu_layers: int | None = None,
    tensor_split: Sequence[float] = (),
    experts_on_cpu: int = 0,
) -> tuple[Any, ...]:
    """Fill `params`; what is returned must live until the model is loaded.

    gpu_layers: None is all. tensor_split: shares of the layers by GPU; empty goes by free memory.
    experts_on_cpu: layers, from the first, whose experts stay in host memory.
    Raises EngineError when this build cannot name the host's memory.
    """
    params.n_gpu_layers = ALL_LAYERS if gpu_layers is None else gpu_layers
    kept: list[Any] = []
    if tensor_split:
        count = max(len(tensor_split), int(lib.llama_max_devices()))
        shares = (ctypes.c_float * count)(*tensor_split)
        params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        kept.append(shares)
    if experts_on_cpu > 0:
        patterns = expert_patterns(experts_on_cpu)
        host = _host_buffer_type()
        # The list ends with an entry without a pattern.
        overrides = (BufferOverride * (len(patterns) + 1))(
            *(BufferOverride(pattern.encode(), host) for pattern in patterns)
        )
        params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
        kept.append(overrides)
    return tuple(kept)


def expert_patterns(layers: int) -> list[str]:
    """Regular expressions for the expert tensors of the first `layers` layers."""
    if layers >= _MOST_LAYERS:
        return [_EXPERTS]
    return [rf"blk\.{layer}{_EXPERTS}" for layer in range(layers)]


def _host_buffer_type() -> int:
    function = find_symbol("ggml_backend_cpu_buffer_type")
    if function is None:
        raise EngineError(
            "this llama.cpp build cannot keep experts in host memory",
            hint="leave --cpu-moe and --n-cpu-moe out, or use fewer --gpu-layers",
        )
    function.argtypes = []
    function.restype = ctypes.c_void_p
    return int(function())
