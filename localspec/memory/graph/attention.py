"""Attention blocks: plain, fused QKV, gated, latent (MLA). Follows llama-graph.cpp build_attn*."""

from __future__ import annotations

from localspec.ggufmeta.architecture import Layer
from localspec.memory.graph.builder import Builder
from localspec.memory.graph.tensors import (
    F16,
    F32,
    Tensor,
    reshape,
    view,
    weight,
    write_into,
)

_SCALED_QUERY = frozenset({"gemma", "gemma2", "gemma3", "phi2", "phi3"})
"""The query is scaled by a node of its own."""
_QUERY_FIRST = frozenset({"gemma4"})
_ROPE_IN_WINDOW = frozenset({"muse-glimmer"})
"""Layers that see everything know no positions."""


def attention(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    """(n_embd, n_tokens) of one self-attention, its output matrix included."""
    if b.has("attn_kv_a_mqa.weight"):
        return _latent(b, layer, x)
    n = b.batch.n_tokens
    query, key, value, gate = _project(b, layer, x, n)
    sliding = b.arch.n_swa > 0
    out = _attend(b, layer, query, key, value, order="qkv" if sliding else "qvk")
    if gate is not None:
        out = _gated(b, layer, out, b.node("unary", gate))
    return b.matmul("attn_output", out)


def _gated(b: Builder, layer: Layer, out: Tensor, gate: Tensor) -> Tensor:
    """A gate has one value for each element, or one for each head (laguna)."""
    if gate.shape[0] == out.shape[0]:
        return b.node("mul", out, gate)
    n, heads = b.batch.n_tokens, layer.n_head
    by_head = reshape(out, layer.head_v, heads, n)
    return reshape(b.node("mul", by_head, reshape(gate, 1, heads, n)), *out.shape)


def _project(
    b: Builder, layer: Layer, x: Tensor, n: int
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    heads, kv, dim = layer.n_head, layer.n_head_kv, layer.head_k
    gate = None
    if b.has("attn_qkv.weight"):
        fused = b.matmul("attn_qkv", x)
        query = view(fused, dim, heads, n)
        key: Tensor | None = view(fused, dim, kv, n)
        value: Tensor | None = view(fused, layer.head_v, kv, n)
    else:
        flat = b.matmul("attn_q", x)
        if flat.shape[0] == 2 * heads * dim:
            # Query and gate come from one matrix (qwen3next and its kin).
            query = view(flat, dim, heads, n)
            gate = Tensor("cont", (dim * heads, n), (view(flat, dim, heads, n),))
        else:
            query = reshape(flat, dim, heads, n)
        key = value = None
        if layer.reads_kv_of is None:
            key = reshape(b.matmul("attn_k", x), dim, kv, n)
            value = (
                reshape(b.matmul("attn_v", x), layer.head_v, kv, n)
                if b.has("attn_v.weight")
                else key
            )
    if b.has("attn_gate.weight"):
        gate = b.matmul("attn_gate", x)
    if b.arch.name == "gemma4" and value is not None:
        value = b.node("rms_norm", value)
    query = _positioned(b, layer, query, "attn_q_norm")
    if b.arch.name in _SCALED_QUERY:
        query = b.node("scale", query)
    if key is not None:
        key = _positioned(b, layer, key, "attn_k_norm")
    return query, key, value, gate


def _positioned(b: Builder, layer: Layer, x: Tensor, norm: str) -> Tensor:
    if b.has(f"{norm}.weight"):
        x = b.norm(x, norm)
    if not b.arch.has_rope or (b.arch.name in _ROPE_IN_WINDOW and not layer.is_swa):
        return x
    return b.node("rope", x, b.positions())


def _attend(
    b: Builder,
    layer: Layer,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    order: str,
) -> Tensor:
    """Store K and V, then softmax(QK)V; (n_head * head_v, n_tokens)."""
    n = b.batch.n_tokens
    turn_k, turn_v = b.rotation(layer, keys=True), b.rotation(layer, keys=False)
    if turn_k is not None:
        query = _turned(b, query, turn_k)
        key = None if key is None else _turned(b, key, turn_k)
    if turn_v is not None and value is not None:
        value = _turned(b, value, turn_v)
    parts = {"q": query, "k": key, "v": value}
    for letter in order:
        part = parts[letter]
        if part is not None:
            b.expand(part)
    kv, source = layer.n_head_kv, layer.index if layer.reads_kv_of is None else layer.reads_kv_of
    cells = b.batch.cells_swa if layer.is_swa else b.batch.cells
    cache_k = weight(f"cache_k{source}", kv * layer.head_k, cells)
    cache_v = weight(f"cache_v{source}", kv * layer.head_v, cells)
    if key is not None:
        rows = view(key, key.shape[0] * key.shape[1], n)
        b.expand(write_into(cache_k, rows, b.key_rows(layer)))
    if value is not None:
        b.expand(_store_values(b, layer, value, cache_v))
    k, v = view(cache_k, layer.head_k, kv, cells), view(cache_v, layer.head_v, kv, cells)
    out = softmax_values(b, layer, query, k, v, None)
    if turn_v is not None:
        out = _turned(b, out, turn_v)
    return out


def _store_values(b: Builder, layer: Layer, value: Tensor, cache: Tensor) -> Tensor:
    n, width = b.batch.n_tokens, value.shape[0] * value.shape[1]
    if b.batch.flash_attn:
        return write_into(cache, view(value, width, n), b.value_rows(layer))
    flat = reshape(value, width, n) if value.contiguous else Tensor("cont", (width, n), (value,))
    widest = max(other.n_head_kv * other.head_v for other in b.arch.layers if other.attends)
    if width < widest:
        flat = Tensor("pad", (widest, n), (flat,))
    return write_into(cache, reshape(flat, 1, flat.shape[0] * n), b.value_rows(layer))


def softmax_values(
    b: Builder, layer: Layer, query: Tensor, k: Tensor, v: Tensor, v_mla: Tensor | None
) -> Tensor:
    """build_attn_mha: (heads * value length, n_tokens)."""
    n, heads = b.batch.n_tokens, layer.n_head
    width, cells = v.shape[0], k.shape[2]
    query = view(view(query, query.shape[0], heads, n), query.shape[0], n, heads)
    k = view(k, k.shape[0], cells, k.shape[1])
    if b.batch.flash_attn:
        v = view(v, width, cells, v.shape[1])
        # Flash attention takes no f32: those are copied to f16 for every layer. The values of a
        # latent cache are part of its keys.
        if b.batch.kv_type_k == "f32":
            k = Tensor("cast", k.shape, (k,), element=F16)
        if (b.batch.kv_type_k if v_mla is not None else b.batch.kv_type_v) == "f32":
            v = Tensor("cast", v.shape, (v,), element=F16)
        out = Tensor("flash_attn", (width, heads, n), (query, k, v, b.mask(layer)))
        if v_mla is not None:
            turned = view(out, width, n, heads)
            out = Tensor("mul_mat", (v_mla.shape[1], n, heads), (v_mla, turned))
            out = Tensor("cont", (v_mla.shape[1], heads, n), (view(out, *out.shape),))
        return reshape(out, out.shape[0] * heads, n)
    scores = Tensor("mul_mat", (cells, n, heads), (k, query))
    if b.arch.name == "gemma2":
        for op in ("scale", "unary", "scale"):
            scores = b.node(op, scores)
    scores = Tensor("soft_max", scores.shape, (scores, b.mask(layer)))
    values = view(v, cells, width, v.shape[1])
    if v_mla is not None:
        # The latent cache is not transposed: it is copied before it is read by columns.
        values = Tensor("cont", (cells, width, v.shape[1]), (values,), element=v.element)
    out = Tensor("mul_mat", (width, n, heads), (values, scores))
    if v_mla is not None:
        out = Tensor("mul_mat", (v_mla.shape[1], n, heads), (v_mla, out))
    shown = view(out, out.shape[0], heads, n)
    out = Tensor("cont", (out.shape[0] * heads, n), (shown,))
    b.expand(out)
    return out


def _turned(b: Builder, x: Tensor, rotation: Tensor) -> Tensor:
    # llama_mul_mat_hadamard: rows of the rotation's width, multiplied, back in shape.
    size = rotation.shape[0]
    total = 1
    for dimension in x.shape:
        total *= dimension
    if not x.contiguous:
        x = Tensor("cont", x.shape, (x,))
    flat = reshape(x, size, total // size)
    return reshape(Tensor("mul_mat", flat.shape, (rotation, flat)), *x.shape)


def _latent(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    """deepseek2.cpp with absorbed projections: K is the latent row, V its first part."""
    n, heads = b.batch.n_tokens, layer.n_head
    if b.has("attn_q_a.weight"):
        q = b.multiply(
            b.tensor("attn_q_b.weight"), b.norm(b.matmul("attn_q_a", x), "attn_q_a_norm")
        )
    else:
        q = b.matmul("attn_q", x)
    nope, rank = b.matrix("attn_k_b.weight").shape[:2]
    rot = layer.n_rot
    q_nope, q_pe = view(q, nope, heads, n), view(q, rot, heads, n)
    latent = b.matmul("attn_kv_a_mqa", x)
    compressed, k_pe = view(latent, rank, n), view(latent, rot, 1, n)
    q_pe, k_pe = b.node("rope", q_pe, b.positions()), b.node("rope", k_pe, b.positions())
    normed = b.norm(compressed, "attn_kv_a_norm")
    by_head = view(q_nope, nope, n, heads)
    absorbed = Tensor("mul_mat", (rank, n, heads), (b.tensor("attn_k_b.weight"), by_head))
    query = Tensor("concat", (rank + rot, heads, n), (view(absorbed, rank, heads, n), q_pe))
    value = reshape(normed, rank, 1, n)
    key = Tensor("concat", (rank + rot, 1, n), (value, k_pe))
    for part in (query, value, key):
        b.expand(part)
    cells = b.batch.cells
    cache = weight(f"cache_k{layer.index}", rank + rot, cells)
    cache.element = F32 if b.batch.kv_type_k == "f32" else F16
    b.expand(write_into(cache, view(key, rank + rot, n), b.key_rows(layer)))
    k, v = view(cache, rank + rot, 1, cells), view(cache, rank, 1, cells)
    out = softmax_values(b, layer, query, k, v, b.tensor("attn_v_b.weight"))
    return b.matmul("attn_output", out)
