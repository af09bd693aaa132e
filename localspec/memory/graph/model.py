"""The whole worst-case graph, block after block."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.ggufmeta.architecture import Architecture, Layer
from localspec.memory.graph.attention import attention
from localspec.memory.graph.builder import Batch, Builder
from localspec.memory.graph.feedforward import feed_forward
from localspec.memory.graph.mixers import mixer
from localspec.memory.graph.tensors import I32, Graph, Tensor, reshape, view

_SCALED_EMBEDDING = frozenset({"gemma", "gemma2", "gemma3", "gemma4", "minicpm"})
_NORMED_EMBEDDING = frozenset({"muse-glimmer"})
_LATE_ROWS = frozenset({"gpt-oss", "gemma4", "qwen35", "qwen35moe"})
"""Rows without output are dropped after the last block, not inside it."""
_EXPANDS_NORM = frozenset({"qwen35", "qwen35moe", "qwen3next"})
_SOFTCAPPED = frozenset({"gemma2", "gemma4", "grok", "muse-glimmer"})
_GATHER_BEFORE_NORM = frozenset({"gemma3", "gemma2", "gemma"})


def build_graph(
    arch: Architecture,
    shapes: dict[str, tuple[int, ...]],
    batch: Batch,
    devices: Sequence[int] | None = None,
    host: int = 0,
) -> Graph:
    """The graph of one pass over `batch`.

    devices: where each block of the trunk is computed, and last where the output is.
    host: the device that looks embeddings up.
    """
    chosen = arch.trunk
    b = Builder(arch, shapes, batch)
    b.graph.device = host
    tokens = b.input("tokens", batch.n_tokens, element=I32)
    x = b.rows(b.model_tensor("token_embd.weight"), tokens)
    b.expand(x)
    # Text comes as tokens, images as vectors: room for both is reserved (build_inp_embd).
    b.expand(b.input("embd", arch.n_embd, batch.n_tokens))
    if arch.name in _SCALED_EMBEDDING:
        x = b.node("scale", x)
    elif arch.name in _NORMED_EMBEDDING:
        x = b.node("rms_norm", x)
    per_layer = _per_layer_inputs(b, x, tokens)
    b.expand(x)
    for index, layer in enumerate(chosen):
        b.at(layer.index)
        if devices is not None:
            b.graph.device = devices[index]
        last = index == len(chosen) - 1
        x = _block(b, layer, x, last and arch.name not in _LATE_ROWS, per_layer)
        # Most blocks enter the graph only when a later one expands something that needs them.
        b.graph.place(x)
    if devices is not None:
        b.graph.device = devices[-1]
    b.expand(_head(b, x))
    return b.graph


def _block(
    b: Builder, layer: Layer, x: Tensor, drop_rows: bool, per_layer: _PerLayer | None
) -> Tensor:
    residual = x
    normed = b.norm(x, "attn_norm") if b.has("attn_norm.weight") else x
    if b.arch.name in _EXPANDS_NORM:
        b.expand(normed)
    if not layer.is_recurrent and not layer.attends and not b.has("ffn_norm.weight"):
        # nemotron_h: a block is a mixer, attention or a feed-forward part, never two of them.
        return _only_feed_forward(b, normed, residual, drop_rows)
    if layer.is_recurrent and layer.attends:
        return _side_by_side(b, layer, x, normed, drop_rows)
    out = normed
    if layer.attends:
        out = attention(b, layer, normed)
    elif layer.is_recurrent:
        out = mixer(b, layer, normed)
    name = b.arch.name
    if drop_rows:
        ids = b.out_ids()
        out = b.rows(reshape(out, out.shape[0], b.batch.n_tokens), ids)
        if name not in _GATHER_BEFORE_NORM:
            residual = b.rows(residual, ids)
    if _has_post_norms(b):
        out = b.norm(out, "post_attention_norm")
        if drop_rows and name in _GATHER_BEFORE_NORM:
            residual = b.rows(residual, b.out_ids())
    elif drop_rows and name in _GATHER_BEFORE_NORM:
        residual = b.rows(residual, b.out_ids())
    joined = (
        b.node("add", residual, out)
        if name in ("lfm2", "lfm2moe")
        else b.node("add", out, residual)
    )
    norm = "ffn_norm" if b.has("ffn_norm.weight") else "post_attention_norm"
    if not b.has(f"{norm}.weight"):
        return joined
    out = feed_forward(b, b.norm(joined, norm))
    if b.has("post_ffw_norm.weight"):
        out = b.norm(out, "post_ffw_norm")
    swapped = name in ("lfm2", "lfm2moe", "phi3")
    out = b.node("add", joined, out) if swapped else b.node("add", out, joined)
    if per_layer is not None:
        out = per_layer.apply(b, out)
    if b.has("layer_output_scale.weight"):
        out = b.node("mul", out, b.tensor("layer_output_scale.weight"))
    return out


def _side_by_side(b: Builder, layer: Layer, x: Tensor, normed: Tensor, drop_rows: bool) -> Tensor:
    """falcon-h1: attention and mixer of the same input, which is normed for each of them."""
    attended = attention(b, layer, normed)
    mixed = mixer(b, layer, b.norm(x, "attn_norm"))
    joined = b.node("add", b.node("add", attended, mixed), x)
    if drop_rows:
        joined = b.rows(joined, b.out_ids())
    return b.node("add", feed_forward(b, b.norm(joined, "ffn_norm")), joined)


def _only_feed_forward(b: Builder, normed: Tensor, residual: Tensor, drop_rows: bool) -> Tensor:
    out = feed_forward(b, normed)
    if drop_rows:
        out, residual = b.rows(out, b.out_ids()), b.rows(residual, b.out_ids())
    return b.node("add", out, residual)


def _has_post_norms(b: Builder) -> bool:
    return b.has("ffn_norm.weight") and b.has("post_attention_norm.weight")


def _head(b: Builder, x: Tensor) -> Tensor:
    name = b.arch.name
    norm = "output_norm.weight"
    if norm not in b.shapes:
        norm = "token_embd_norm.weight"
    if name == "gemma4":
        x = b.rows(b.model_norm(x, norm), b.out_ids())
    else:
        if name in _LATE_ROWS:
            x = b.rows(x, b.out_ids())
        x = b.model_norm(x, norm)
    table = "output.weight" if "output.weight" in b.shapes else "token_embd.weight"
    x = b.multiply(b.model_tensor(table), x)
    if name in _SOFTCAPPED:
        for op in ("scale", "unary", "scale"):
            x = b.node(op, x)
    return x


class _PerLayer:
    """The extra input of each block (gemma3n, gemma4 with per-layer embeddings)."""

    def __init__(self, b: Builder, x: Tensor, tokens: Tensor) -> None:
        n = b.batch.n_tokens
        table = b.model_tensor("per_layer_token_embd.weight")
        width = b.model_tensor("per_layer_proj_norm.weight").shape[0]
        blocks = table.shape[0] // width
        own_tokens = b.input("tokens2", n, element=I32)
        chosen = b.node("scale", reshape(b.rows(table, own_tokens), width, blocks, n))
        b.expand(chosen)
        projected = b.multiply(b.model_tensor("per_layer_model_proj.weight"), x)
        projected = reshape(b.node("scale", projected), width, blocks, n)
        projected = b.model_norm(projected, "per_layer_proj_norm.weight")
        joined = b.node("scale", b.node("add", projected, chosen))
        self.all = Tensor("cont", (width, n, blocks), (view(joined, width, n, blocks),))
        self.width = width

    def apply(self, b: Builder, x: Tensor) -> Tensor:
        gated = b.node("unary", b.matmul("inp_gate", x))
        gated = b.node("mul", gated, view(self.all, self.width, b.batch.n_tokens))
        out = b.norm(b.matmul("proj", gated), "post_norm")
        return b.node("add", x, out)


def _per_layer_inputs(b: Builder, x: Tensor, tokens: Tensor) -> _PerLayer | None:
    if "per_layer_token_embd.weight" not in b.shapes or b.arch.name != "gemma4":
        return None
    return _PerLayer(b, x, tokens)
