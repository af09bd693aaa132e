"""Ghosts of real models: headers with the published dimensions, weights a sparse hole.

Dimensions are those of the models' published configurations. Types follow what the usual
quantisations give (norms and biases F32, matrices Q4_K, the output matrix Q6_K). The tokens are
synthetic; their number is real, and only that counts for memory.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from localspec.ggufmeta.ggml_types import BY_NAME, GgmlType
from localspec.ggufmeta.header import Header, Part, TensorInfo
from localspec.ggufmeta.values import STRING, Array
from tests.support.gguf_layouts import Dims, Layout, layout
from tests.support.tiny_gguf import add_keys

_TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_K": gguf.GGMLQuantizationType.Q4_K,
    "q6_K": gguf.GGMLQuantizationType.Q6_K,
    "mxfp4": gguf.GGMLQuantizationType.MXFP4,
}


def _dims(
    shape: tuple[int, int, int],
    heads: tuple[int, int, int],
    n_vocab: int,
    n_ctx: int,
    *,
    tied: bool = False,
    **extra: Any,
) -> Dims:
    """shape: layers, embedding and feed-forward length; heads: query, key-value, length."""
    n_layer, n_embd, n_ff = shape
    n_head, n_head_kv, head_dim = heads
    return Dims(
        n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab, n_ctx, tied=tied, extra=extra
    )


_LLAMA_3: dict[str, Any] = {"n_vocab": 128256, "n_ctx": 131072, "rope_freqs": True}
_QWEN_3: dict[str, Any] = {"n_vocab": 151936, "n_ctx": 40960}
_DELTA_NET: dict[str, Any] = {
    "n_vocab": 248320,
    "n_ctx": 262144,
    "n_rot": 64,
    "d_state": 128,
    "n_group": 16,
}
_NEMOTRON = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
_QWEN_27B: dict[str, Any] = {**_DELTA_NET, "d_inner": 6144, "dt_rank": 48}

MODELS: dict[str, tuple[str, Dims]] = {
    "smollm2-135m": ("llama", _dims((30, 576, 1536), (9, 3, 64), 49152, 8192, tied=True)),
    "gemma-3-270m": (
        "gemma3",
        _dims((18, 640, 2048), (4, 1, 256), 262144, 32768, tied=True, n_swa=512),
    ),
    "llama-3.1-8b": ("llama", _dims((32, 4096, 14336), (32, 8, 128), **_LLAMA_3)),
    "llama-3.1-70b": ("llama", _dims((80, 8192, 28672), (64, 8, 128), **_LLAMA_3)),
    "mistral-small-24b": ("llama", _dims((40, 5120, 32768), (32, 8, 128), 131072, 131072)),
    "deepseek-r1-distill-qwen-7b": (
        "qwen2",
        _dims((28, 3584, 18944), (28, 4, 128), 152064, 131072),
    ),
    "qwen3-32b": ("qwen3", _dims((64, 5120, 25600), (64, 8, 128), **_QWEN_3)),
    "qwen3-0.6b": ("qwen3", _dims((28, 1024, 3072), (16, 8, 128), tied=True, **_QWEN_3)),
    "qwen3-30b-a3b": (
        "qwen3moe",
        _dims(
            (48, 2048, 6144),
            (32, 4, 128),
            n_expert=128,
            n_expert_used=8,
            n_ff_exp=768,
            **_QWEN_3,
        ),
    ),
    "gemma-3-27b": (
        "gemma3",
        _dims((62, 5376, 21504), (32, 16, 128), 262208, 131072, tied=True, n_swa=1024),
    ),
    "gemma-4-31b": (
        "gemma4",
        _dims(
            (60, 5376, 21504),
            (32, 16, 512),
            n_vocab=262144,
            n_ctx=262144,
            tied=True,
            n_head_kv_full=4,
            n_swa=1024,
            head_dim_swa=256,
            k_is_v=True,
        ),
    ),
    "gemma-4-e4b": (
        "gemma4",
        _dims(
            (42, 2560, 10240),
            (8, 2, 512),
            n_vocab=262144,
            n_ctx=131072,
            tied=True,
            n_swa=512,
            head_dim_swa=256,
            per_layer=256,
            shared=18,
        ),
    ),
    "gpt-oss-20b": (
        "gpt-oss",
        _dims(
            (24, 2880, 2880),
            (64, 8, 64),
            n_vocab=201088,
            n_ctx=131072,
            n_expert=32,
            n_expert_used=4,
            n_ff_exp=2880,
            n_swa=128,
        ),
    ),
    "deepseek-v3": (
        "deepseek2",
        _dims(
            (61, 7168, 18432),
            (128, 128, 192),
            n_vocab=129280,
            n_ctx=163840,
            kv_lora_rank=512,
            q_lora_rank=1536,
            n_rot=64,
            nope=128,
            v_mla=128,
            n_expert=256,
            n_expert_used=8,
            n_ff_exp=2048,
            n_dense=3,
        ),
    ),
    "qwen3.5-27b": ("qwen35", _dims((64, 5120, 17408), (24, 4, 256), **_QWEN_27B)),
    "qwen3.5-27b-nextn": (
        "qwen35",
        _dims((64, 5120, 17408), (24, 4, 256), nextn=1, **_QWEN_27B),
    ),
    "qwen3.6-35b-a3b": (
        "qwen35moe",
        _dims(
            (40, 2048, 0),
            (16, 2, 256),
            d_inner=4096,
            dt_rank=32,
            n_expert=256,
            n_expert_used=8,
            n_ff_exp=512,
            **_DELTA_NET,
        ),
    ),
    "mamba2-2.7b": (
        "mamba2",
        _dims(
            (64, 2560, 0),
            (0, 0, 0),
            n_vocab=50288,
            n_ctx=1048576,
            d_inner=5120,
            d_state=128,
            dt_rank=80,
        ),
    ),
    "lfm2-1.2b": (
        "lfm2",
        _dims(
            (16, 2048, 8192),
            (32, 8, 64),
            n_vocab=65536,
            n_ctx=128000,
            tied=True,
            attention_layers=(2, 5, 8, 10, 12, 14),
        ),
    ),
    "granite-4-h-small": (
        "granitehybrid",
        _dims(
            (40, 4096, 768),
            (32, 8, 128),
            n_vocab=100352,
            n_ctx=131072,
            tied=True,
            attention_layers=(5, 15, 25, 35),
            d_inner=8192,
            d_state=128,
            dt_rank=128,
            n_expert=72,
            n_expert_used=10,
            n_ff_shexp=1536,
        ),
    ),
    "gemma-2-9b": (
        "gemma2",
        _dims((42, 3584, 14336), (16, 8, 256), 256000, 8192, tied=True, n_swa=4096),
    ),
    "glm-4.5-air": (
        "glm4moe",
        _dims(
            (46, 4096, 10944),
            (96, 8, 128),
            n_vocab=151552,
            n_ctx=131072,
            n_rot=64,
            n_expert=128,
            n_expert_used=8,
            n_ff_exp=1408,
            nextn=1,
        ),
    ),
    "olmo-2-13b": ("olmo2", _dims((40, 5120, 13824), (40, 40, 128), 100352, 4096)),
    "seed-oss-36b": ("seed_oss", _dims((64, 5120, 27648), (80, 8, 128), 155136, 524288)),
    "smollm3-3b": ("smollm3", _dims((36, 2048, 11008), (16, 4, 128), 128256, 65536, tied=True)),
    "granite-3.3-8b": ("granite", _dims((40, 4096, 12800), (32, 8, 128), 49159, 131072, tied=True)),
    "mixtral-8x7b": (
        "llama",
        _dims((32, 4096, 14336), (32, 8, 128), 32000, 32768, n_expert=8, n_expert_used=2),
    ),
    "nemotron-nano-9b": (
        "nemotron_h",
        _dims(
            (len(_NEMOTRON), 4480, 15680),
            (40, 8, 128),
            n_vocab=131072,
            n_ctx=131072,
            pattern=_NEMOTRON,
            d_inner=10240,
            d_state=128,
            dt_rank=128,
            n_group=8,
        ),
    ),
    "falcon-h1-7b": (
        "falcon-h1",
        _dims(
            (44, 3072, 12288),
            (12, 2, 128),
            n_vocab=130049,
            n_ctx=262144,
            d_inner=3072,
            d_state=256,
            dt_rank=24,
        ),
    ),
    "phi-4": ("phi3", _dims((40, 5120, 17920), (40, 10, 128), 100352, 16384)),
}
"""Name, architecture and dimensions of each ghost the golden figures were taken from."""

_QWEN_25: dict[str, Any] = {"n_vocab": 152064, "n_ctx": 131072}
_QWEN_25_SMALL: dict[str, Any] = {"n_vocab": 151936, "n_ctx": 131072, "tied": True}
CATALOG_MODELS: dict[str, tuple[str, Dims]] = {
    **MODELS,
    "qwen3-14b": ("qwen3", _dims((40, 5120, 17408), (40, 8, 128), **_QWEN_3)),
    "qwen3-8b": ("qwen3", _dims((36, 4096, 12288), (32, 8, 128), **_QWEN_3)),
    "qwen3-4b": ("qwen3", _dims((36, 2560, 9728), (32, 8, 128), tied=True, **_QWEN_3)),
    "qwen2.5-32b": ("qwen2", _dims((64, 5120, 27648), (40, 8, 128), **_QWEN_25)),
    "qwen2.5-1.5b": ("qwen2", _dims((28, 1536, 8960), (12, 2, 128), **_QWEN_25_SMALL)),
    "qwen2.5-0.5b": ("qwen2", _dims((24, 896, 4864), (14, 2, 64), **_QWEN_25_SMALL)),
    "mistral-draft-0.5b": ("qwen2", _dims((24, 896, 4864), (14, 2, 64), 131072, 32768, tied=True)),
    "llama-3.2-1b": ("llama", _dims((16, 2048, 8192), (32, 8, 64), tied=True, **_LLAMA_3)),
    "gemma-3-12b": (
        "gemma3",
        _dims((48, 3840, 15360), (16, 8, 256), 262208, 131072, tied=True, n_swa=1024),
    ),
    "gemma-3-1b": (
        "gemma3",
        _dims((26, 1152, 6912), (4, 1, 256), 262144, 32768, tied=True, n_swa=512),
    ),
    "qwen3.5-9b": (
        "qwen35",
        _dims((32, 4096, 12288), (16, 4, 256), d_inner=4096, dt_rank=32, **_DELTA_NET),
    ),
    "qwen3.5-0.8b": (
        "qwen35",
        _dims((24, 1024, 3584), (8, 2, 256), tied=True, d_inner=2048, dt_rank=16, **_DELTA_NET),
    ),
    "smollm2-1.7b": ("llama", _dims((24, 2048, 8192), (32, 32, 64), 49152, 8192, tied=True)),
}
"""`MODELS`, and the other models of the catalogue whose dimensions are known."""

CATALOG_PAIRS: dict[str, tuple[str, str | None]] = {
    "qwen3-32b+0.6b": ("qwen3-32b", "qwen3-0.6b"),
    "qwen3-14b+0.6b": ("qwen3-14b", "qwen3-0.6b"),
    "qwen3-8b+0.6b": ("qwen3-8b", "qwen3-0.6b"),
    "qwen2.5-coder-32b+0.5b": ("qwen2.5-32b", "qwen2.5-0.5b"),
    "llama-3.3-70b+3.2-1b": ("llama-3.1-70b", "llama-3.2-1b"),
    "llama-3.1-70b+3.1-8b": ("llama-3.1-70b", "llama-3.1-8b"),
    "llama-3.1-8b+3.2-1b": ("llama-3.1-8b", "llama-3.2-1b"),
    "gemma-3-27b+1b": ("gemma-3-27b", "gemma-3-1b"),
    "gemma-3-12b+270m": ("gemma-3-12b", "gemma-3-270m"),
    "mistral-small-3.1-24b+draft-0.5b": ("mistral-small-24b", "mistral-draft-0.5b"),
    "deepseek-r1-distill-qwen-32b+1.5b": ("qwen2.5-32b", "qwen2.5-1.5b"),
    "qwen3.5-27b+0.8b": ("qwen3.5-27b", "qwen3.5-0.8b"),
    "qwen3-4b+dflash": ("qwen3-4b", None),
    "qwen3.5-9b+dflash": ("qwen3.5-9b", None),
    "qwen3.6-27b+dflash": ("qwen3.5-27b", None),
    "gemma-4-31b+mtp": ("gemma-4-31b", None),
    "gemma-4-e4b+mtp": ("gemma-4-e4b", None),
    "gpt-oss-20b": ("gpt-oss-20b", None),
    "qwen3-coder-30b-a3b": ("qwen3-30b-a3b", None),
    "smollm2-1.7b": ("smollm2-1.7b", None),
}
"""Pairs of the catalogue, target and draft; heads run as n-gram until they are built."""


def ghost_header(name: str) -> Header:
    """What `read_header` finds in the ghost of `name`, made without one; tokens have no text."""
    arch, dims = CATALOG_MODELS[name]
    shape = layout(arch, dims)
    metadata: dict[str, Any] = {
        "general.architecture": arch,
        "tokenizer.ggml.model": "gemma4" if arch == "gemma4" else "gpt2",
        "tokenizer.ggml.tokens": Array(STRING, dims.n_vocab, b""),
    }
    for key, value in shape.keys.items():
        if isinstance(value, list):
            value = _array(value)
        metadata[f"{arch}.{key}"] = value
    tensors, offset = [], 0
    for tensor, dimensions in shape.tensors:
        info = TensorInfo(tensor, dimensions, tensor_type(arch, tensor, dimensions), offset)
        tensors.append(info)
        offset = -(-(offset + info.nbytes) // 32) * 32
    part = Part(name, 4096, offset, 4096 + offset)
    return Header(name, 3, 32, metadata, tuple(tensors), (part,))


def _array(values: list[Any]) -> Array:
    if isinstance(values[0], bool):
        return Array(7, len(values), bytes(values))
    return Array(5, len(values), struct.pack(f"<{len(values)}i", *values))


def write_ghost_of(name: str, path: Path) -> Path:
    """The ghost of one of `MODELS` at `path`; a few megabytes on disk at most."""
    arch, dims = MODELS[name]
    return write_ghost_model(path, layout(arch, dims), dims, name)


def write_ghost_model(path: Path, shape: Layout, dims: Dims, name: str) -> Path:
    writer: Any = gguf.GGUFWriter(str(path), shape.arch)
    writer.add_name(name)
    writer.add_file_type(15)
    add_keys(writer, shape.arch, shape.keys)
    _add_synthetic_tokens(writer, shape.arch, dims.n_vocab)
    for tensor, dimensions in shape.tensors:
        kind = tensor_type(shape.arch, tensor, dimensions)
        writer.add_tensor_info(
            tensor,
            tuple(reversed(dimensions)),
            np.dtype(np.float32),
            kind.row_size(dimensions[0]) * prod(dimensions[1:]),
            raw_dtype=_TYPES[kind.name],
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    size = sum(-(-info.nbytes // 32) * 32 for part in writer.tensors for info in part.values())
    writer.close()
    start = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(start + size)
    return path


def tensor_type(arch: str, name: str, shape: tuple[int, ...]) -> GgmlType:
    """What a Q4_K_M-like quantisation gives this tensor."""
    if len(shape) == 1 or "norm" in name or name.endswith(".bias") or ".ssm_a" in name:
        return BY_NAME["f32"]
    if any(part in name for part in ("ffn_gate_inp", "ssm_conv1d", "ssm_d", "shortconv.conv")):
        return BY_NAME["f32"]
    if "_exps" in name and arch == "gpt-oss":
        return BY_NAME["mxfp4"]
    if name in ("token_embd.weight", "output.weight") and shape[0] % 256 == 0:
        return BY_NAME["q6_K"]
    if shape[0] % 256 == 0:
        return BY_NAME["q4_K"]
    return BY_NAME["q8_0" if shape[0] % 32 == 0 else "f16"]


def _add_synthetic_tokens(writer: Any, arch: str, n_vocab: int) -> None:
    writer.add_tokenizer_model("gemma4" if arch == "gemma4" else "gpt2")
    writer.add_tokenizer_pre("gemma4" if arch == "gemma4" else "gpt-2")
    writer.add_token_list([f"t{i}" for i in range(n_vocab)])
    writer.add_token_types([3, 3] + [1] * (n_vocab - 2))
    if arch == "gemma4":
        writer.add_token_scores([0.0] * n_vocab)
    writer.add_token_merges(["t 1"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
