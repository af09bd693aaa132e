"""Tiny GGUF files with random weights, one per kind of memory: they load in milliseconds.

Every family shares one byte-level vocabulary, so any text tokenises and any family can draft for
any other. Random rows are scaled so that the best token stands out and printable text is favoured.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from tests.support.gguf_layouts import Dims, Layout, layout

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>")
BOS, EOS = 0, 1
_PAIRS = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io"

_NORMS = {"attn_q_norm": 2.0, "attn_k_norm": 2.0, "post_attention_norm": 8.0, "post_ffw_norm": 6.0}
"""Sharp attention that outweighs the residual: text that depends on its past."""

_SSM = {"d_inner": 128, "d_state": 16, "dt_rank": 4, "n_group": 1}
_FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"n_head_kv": 4}),
    "gqa": ("qwen3", {"n_head_kv": 2}),
    "swa": ("gemma3", {"n_layer": 4, "n_swa": 32, "swa_pattern": 2}),
    "moe": ("qwen3moe", {"n_expert": 8, "n_expert_used": 2, "n_ff_exp": 32}),
    "mla": (
        "deepseek2",
        {
            "kv_lora_rank": 32,
            "q_lora_rank": 32,
            "n_rot": 16,
            "nope": 16,
            "v_mla": 16,
            "n_expert": 4,
            "n_expert_used": 2,
            "n_ff_exp": 32,
        },
    ),
    "recurrent": ("mamba2", dict(_SSM)),
    "hybrid_rollback": ("lfm2", {"n_layer": 4, "attention_layers": (1, 3)}),
    "hybrid": ("granitehybrid", {"n_layer": 4, "attention_layers": (1, 3), **_SSM}),
}
FAMILIES: tuple[str, ...] = tuple(_FAMILIES)
"""`recurrent` and `hybrid` have no rollback rows, `hybrid_rollback` has; `swa` slides by 32."""

_EXPERTS = {"n_expert": 8, "n_expert_used": 2, "n_ff_exp": 32}
_LAID_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "gated": ("muse-glimmer", {"n_layer": 8, "n_swa": 32}),
    "gated_moe": ("laguna", {"n_layer": 4, **_EXPERTS}),
    "gated_heads": ("laguna", {"n_layer": 8, "n_swa": 32, "gate_by_head": True, **_EXPERTS}),
}
LAID_OUT: tuple[str, ...] = tuple(_LAID_OUT)
"""Families that decode like the others, and differ in what their passes need of memory."""


def write_tiny(
    path: Path,
    family: str,
    *,
    seed: int = 0,
    n_vocab: int = 320,
    n_ctx_train: int = 512,
    n_layer: int | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
    scale: float = 1.0,
    noise: float = 0.0,
    add_bos: bool = False,
    pooling: int | None = None,
) -> Path:
    """A random model of `family` at `path`.

    scale: factor on the logits; larger is more certain.
    noise: share of other random weights mixed in, so that the file drafts for the one of the same
    seed: about 0.75 of its tokens agree at 0.02, half at 0.05, a tenth at 0.2, all at 0.
    pooling: llama.h's number of a pooling type, which makes it a model for embeddings.
    """
    arch, options = (_FAMILIES | _LAID_OUT)[family]
    extra = dict(options)
    layers = n_layer or extra.pop("n_layer", 2)
    extra.pop("n_layer", None)
    dims = Dims(
        n_layer=layers,
        n_embd=64,
        n_ff=128,
        n_head=4,
        n_head_kv=extra.pop("n_head_kv", 2),
        head_dim=16,
        n_vocab=n_vocab,
        n_ctx_train=n_ctx_train,
        extra=extra,
    )
    shape = layout(arch, dims)
    if pooling is not None:
        shape.keys["pooling_type"] = pooling
    writer = _writer(path, shape)
    add_vocabulary(writer, n_vocab, chat_template=chat_template, add_bos=add_bos)
    for name, dimensions in shape.tensors:
        data = _weights(name, dimensions, seed)
        if noise:
            other = _weights(name, dimensions, seed + 1_000_003)
            data = np.float32((1 - noise**2) ** 0.5) * data + np.float32(noise) * other
        if name == "output.weight":
            # Against the token just read, or most random models repeat one token for ever.
            data = data - np.float32(0.15) * _weights("token_embd.weight", dimensions, seed)
            data = data * (np.float32(scale) * _row_gain(n_vocab))
        writer.add_tensor(name, data.astype(np.float32))
    return _finish(writer, path)


def write_embedding_only(path: Path, *, pooling: int | None = 1) -> Path:
    """A BERT: it embeds and does not generate. Its words are `w0` to `w315`.

    pooling: llama.h's number of the type: 1 mean, 2 first token, 3 last, 4 a score of two texts.
    """
    dims = Dims(2, 64, 128, 4, 4, 16, 320, 128)
    shape = layout("bert", dims)
    del shape.keys["pooling_type"]
    if pooling is not None:
        shape.keys["pooling_type"] = pooling
    writer = _writer(path, shape)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"▁w{i}" for i in range(316))]
    writer.add_tokenizer_model("bert")
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_token_list(words)
    writer.add_token_types([3] * 4 + [1] * 316)
    writer.add_token_type_count(2)
    for name, dimensions in shape.tensors:
        writer.add_tensor(name, _weights(name, dimensions, 0))
    return _finish(writer, path)


def write_vocab_only(path: Path) -> Path:
    """A tokenizer without tensors, as llama.cpp's test vocabularies are."""
    writer = _writer(
        path, Layout("llama", layout("llama", Dims(2, 64, 128, 4, 4, 16, 320, 128)).keys)
    )
    add_vocabulary(writer, 320)
    return _finish(writer, path)


def write_unknown_architecture(path: Path, arch: str = "quux9") -> Path:
    """A well-formed file of an architecture nobody knows."""
    known = layout("llama", Dims(2, 64, 128, 4, 4, 16, 320, 128))
    known.arch = arch
    writer = _writer(path, known)
    add_vocabulary(writer, 320)
    for name, dimensions in known.tensors:
        writer.add_tensor(name, _weights(name, dimensions, 0))
    return _finish(writer, path)


def vocabulary(n_vocab: int) -> tuple[list[str], list[int], list[str]]:
    """Tokens, token types and merges: four special tokens, 256 bytes, pairs of letters, padding."""
    letters = _byte_characters()
    pairs = [pair for pair in _PAIRS.split() if len(pair) == 2]
    pairs = pairs[: max(0, n_vocab - len(SPECIAL_TOKENS) - 256)]
    tokens = [*SPECIAL_TOKENS, *letters, *pairs]
    types = [3] * len(SPECIAL_TOKENS) + [1] * (256 + len(pairs))
    missing = n_vocab - len(tokens)
    if missing < 0:
        raise ValueError(f"a byte-level vocabulary needs 260 tokens, {n_vocab} asked for")
    tokens += [f"<unused{i}>" for i in range(missing)]
    return tokens, types + [5] * missing, [f"{pair[0]} {pair[1]}" for pair in pairs]


def add_vocabulary(
    writer: Any,
    n_vocab: int,
    *,
    chat_template: str | None = None,
    add_bos: bool = False,
    pre: str = "gpt-2",
) -> None:
    """The shared byte-level vocabulary, padded with unused tokens to `n_vocab`."""
    tokens, types, merges = vocabulary(n_vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges or ["t h"])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(add_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)


def add_keys(writer: Any, arch: str, keys: dict[str, Any]) -> None:
    """Metadata under the prefix of the architecture: whole numbers u32, others f32, lists i32."""
    for key, value in keys.items():
        name = f"{arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, list(value))


def _writer(path: Path, shape: Layout) -> Any:
    writer = gguf.GGUFWriter(str(path), shape.arch)
    writer.add_name(f"tiny {shape.arch}")
    writer.add_file_type(0)
    add_keys(writer, shape.arch, shape.keys)
    return writer


def _finish(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _weights(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    """Random values for one tensor, the same for a name and seed; numpy order of dimensions."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = random.standard_normal(tuple(reversed(shape))).astype(np.float32)
    base = name.removesuffix(".weight").rsplit(".", maxsplit=1)[-1]
    if name.endswith(".bias"):
        # A time step of softplus(-2) = 0.13 remembers about eight tokens.
        return values * np.float32(0.1) - np.float32(2.0 if ".ssm_dt" in name else 0.0)
    if base == "ssm_a":
        return np.float32(-1.0) - np.abs(values)
    if base.endswith("norm") or base == "ssm_d":
        return np.float32(_NORMS.get(base, 1.0)) + np.float32(0.1) * values
    if base == "token_embd":
        return values
    # Attention and mixers weigh more than the residual, so that text depends on its past.
    gain = 6.0 if base in {"attn_output", "ssm_out", "out_proj"} else 2.0
    return values * np.float32(gain / shape[0] ** 0.5)


def _row_gain(n_vocab: int) -> npt.NDArray[np.float32]:
    """(n_vocab, 1): printable tokens stand out, special and unused ones hardly ever win."""
    tokens, types, _ = vocabulary(n_vocab)
    printable = [
        kind == 1 and token.replace("Ġ", " ").isprintable() and token.replace("Ġ", " ").isascii()
        for token, kind in zip(tokens, types, strict=True)
    ]
    return np.where(printable, 2.0, 0.4).astype(np.float32)[:, None]


def _byte_characters() -> list[str]:
    """The printable stand-ins of GPT-2 for the 256 bytes, in the order of the bytes."""
    direct = {*range(33, 127), *range(161, 173), *range(174, 256)}
    out, extra = [], 0
    for byte in range(256):
        if byte in direct:
            out.append(chr(byte))
        else:
            out.append(chr(256 + extra))
            extra += 1
    return out
