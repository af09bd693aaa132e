"""What `--flash-attn auto` means: on, save where the processor alone is faster without.

llama.cpp's flash attention for x86 processors (ggml-cpu/ops.cpp) works through the keys one by one,
for each row of a pass by itself. Measured with 300 tokens of context it makes a pass of one token a
third slower and a pass of eight nearly twice as slow, and the gap grows with the context. It also
adds up in half precision, and in another order for one row than for several, so that speculation
parts from plain decoding more often. Without it prompts are read about a fifth more slowly.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace

from localspec.ggufmeta.ggml_types import BY_NAME
from localspec.memory.devices import Machine
from localspec.memory.request import ModelLoad
from localspec.units import GIB

_MOST_SCORES = 2 * GIB
"""Bytes of attention scores, which flash attention never keeps, that speed may cost a model."""


def is_open(loads: Sequence[ModelLoad]) -> bool:
    """Whether `auto` is still to be decided."""
    return any(load.flash_attn is None for load in loads)


def decided(loads: Sequence[ModelLoad], *, on: bool) -> tuple[ModelLoad, ...]:
    """`loads` with `on` where it was still open."""
    return tuple(
        replace(load, flash_attn=on) if load.flash_attn is None else load for load in loads
    )


def is_slower(loads: Sequence[ModelLoad], machine: Machine) -> bool:
    """Whether `loads` are faster without flash attention on `machine`, and can be loaded so."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    on_gpu = bool(machine.gpus) and any(load.gpu_layers != 0 for load in loads)
    # A quantised cache needs flash attention (llama-context.cpp).
    return not on_gpu and all(
        BY_NAME[load.kv_type].block == 1 and _score_bytes(load) <= _MOST_SCORES for load in loads
    )


def _score_bytes(load: ModelLoad) -> int:
    """What one layer's scores of a whole micro-batch take: F32, tokens x cells x heads."""
    heads = max((layer.n_head for layer in load.architecture.layers), default=0)
    return 4 * load.ubatch * load.cells * heads
