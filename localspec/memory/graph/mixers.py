"""Blocks with a recurrent state: Mamba-2, gated delta net, short convolution.

Follows llama.cpp's models/mamba-base.cpp, delta-net-base.cpp, qwen35.cpp and lfm2.cpp.
"""

from __future__ import annotations

from localspec.ggufmeta.architecture import Layer
from localspec.memory.graph.builder import Builder, GraphUnknownError
from localspec.memory.graph.tensors import F32, I32, Tensor, reshape, view, weight, write_into


def mixer(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    """(n_embd, n_tokens) of one recurrent block.

    Raises GraphUnknownError for a kind this file does not know.
    """
    if b.has("shortconv.conv.weight"):
        return _short_convolution(b, layer, x)
    if b.has("ssm_beta.weight"):
        return _delta_net(b, layer, x)
    if b.has("ssm_in.weight") and b.has("ssm_norm.weight"):
        return _mamba2(b, layer, x)
    raise GraphUnknownError(f"{b.arch.name} has a mixer that is not known")


def _states(b: Builder, layer: Layer, kind: str) -> tuple[Tensor, Tensor]:
    """The cache of states, and the rows this pass starts from (build_rs)."""
    cache, output, states = _open_states(b, layer, kind)
    b.expand(output)
    _copy_extra(b, states, cache)
    return cache, output


def _open_states(b: Builder, layer: Layer, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    assert b.arch.recurrent is not None
    size = b.arch.recurrent.conv if kind == "r" else b.arch.recurrent.state
    n_seq = b.batch.n_seq
    cache = weight(f"{kind}{layer.index}", size, n_seq)
    states = reshape(cache, size, n_seq)
    b.expand(write_into(states, view(states, size)))
    gathered = Tensor("get_rows", (size, n_seq), (states, b.input("s_copy", n_seq, element=I32)))
    return cache, view(gathered, size, n_seq), gathered


def _copy_extra(b: Builder, gathered: Tensor, cache: Tensor) -> None:
    b.expand(write_into(view(cache, 0), view(gathered, 0)))


def _convolved(b: Builder, layer: Layer, x: Tensor, channels: int, name: str) -> Tensor:
    """Prepend the kept columns, keep the last ones, convolve."""
    n = b.batch.n_tokens
    kernel = b.matrix(name)
    kept = kernel.shape[0] - 1
    cache, state = _states(b, layer, "r")
    joined = Tensor(
        "concat", (kept * b.batch.n_seq + n, channels, 1), (reshape(state, kept, channels, 1), x)
    )
    for _ in range(min(n, 1 + b.batch.rollback_rows)):
        b.expand(write_into(view(cache, kept * channels), view(joined, kept, channels)))
    return Tensor("ssm_conv", (channels, n, 1), (joined, kernel))


def _short_convolution(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    n, width = b.batch.n_tokens, x.shape[0]
    shaped = reshape(x, width, n, 1)
    matrix = b.matrix("shortconv.in_proj.weight")
    mixed = Tensor("mul_mat", (matrix.shape[1], n, 1), (matrix, shaped))
    parts = [view(mixed, width, n, 1) for _ in range(3)]
    gated = Tensor("mul", (width, n, 1), (parts[0], parts[2]))
    conv = _convolved(b, layer, view(gated, n, width, 1), width, "shortconv.conv.weight")
    out = Tensor("mul", (width, n, 1), (parts[1], conv))
    last = b.matrix("shortconv.out_proj.weight")
    return reshape(Tensor("mul_mat", (last.shape[1], n, 1), (last, out)), last.shape[1], n)


def _mamba2(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    n = b.batch.n_tokens
    conv_channels = b.matrix("ssm_conv1d.weight").shape[1]
    d_inner = b.tensor("ssm_out.weight").shape[0]
    n_head = b.tensor("ssm_dt.bias").shape[0]
    dim = d_inner // n_head
    # The state of the convolution is asked for before the input is projected.
    kernel = b.matrix("ssm_conv1d.weight")
    kept = kernel.shape[0] - 1
    cache, state = _states(b, layer, "r")
    both = reshape(b.matmul("ssm_in", x), b.matrix("ssm_in.weight").shape[1], n, 1)
    z, mixed = view(both, dim, n_head, n), view(both, conv_channels, n, 1)
    dt = view(both, n_head, n)
    joined = Tensor(
        "concat",
        (kept * b.batch.n_seq + n, conv_channels, 1),
        (reshape(state, kept, conv_channels, 1), view(mixed, n, conv_channels, 1)),
    )
    for _ in range(min(n, 1 + b.batch.rollback_rows)):
        b.expand(write_into(view(cache, kept * conv_channels), view(joined, kept, conv_channels)))
    conv = Tensor("ssm_conv", (conv_channels, n, 1), (joined, kernel))
    conv = b.node("add", conv, b.tensor("ssm_conv1d.bias"))
    conv = b.node("unary", conv)
    values, keys, queries = view(conv, dim, n_head, n), view(conv, 1), view(conv, 1)
    step = b.node("add", Tensor("cont", (n_head, n), (dt,)), b.tensor("ssm_dt.bias"))
    assert b.arch.recurrent is not None
    size = b.arch.recurrent.state
    store, _, gathered = _open_states(b, layer, "s")
    rows = 1 + b.batch.rollback_rows
    scan = Tensor(
        "ssm_scan",
        (d_inner * n + size * rows * b.batch.n_seq,),
        (
            reshape(store, size, 1),
            values,
            step,
            b.tensor("ssm_a"),
            keys,
            queries,
            b.input("s_copy", b.batch.n_seq, element=I32),
        ),
    )
    b.expand(scan)
    _copy_extra(b, gathered, store)
    b.expand(write_into(view(store, size), view(scan, size)))
    y = view(scan, dim, n_head, n)
    skip = Tensor("mul", (dim, n_head, n), (values, b.tensor("ssm_d")))
    y = Tensor("add", (dim, n_head, n), (y, skip))
    y = Tensor("glu", (dim, n_head, n), (Tensor("cont", (dim, n_head, n), (z,)), y))
    group = b.tensor("ssm_norm.weight").shape[0]
    y = b.norm(reshape(y, group, d_inner // group, n), "ssm_norm")
    return b.matmul("ssm_out", reshape(y, d_inner, n))


def _delta_net(b: Builder, layer: Layer, x: Tensor) -> Tensor:
    n = b.batch.n_tokens
    channels = b.matrix("ssm_conv1d.weight").shape[1]
    heads = b.tensor("ssm_dt.bias").shape[0]
    d_inner = b.tensor("ssm_out.weight").shape[0]
    dim = d_inner // heads
    k_heads = (channels - d_inner) // 2 // dim
    mixed = reshape(b.matmul("attn_qkv", x), channels, n, 1)
    z = b.matmul("attn_gate", x)
    beta = b.node("unary", reshape(b.matmul("ssm_beta", x), 1, heads, n))
    alpha = reshape(b.multiply(b.matrix("ssm_alpha.weight"), x), heads, n, 1)
    gate = b.node("unary", b.node("add", alpha, b.tensor("ssm_dt.bias")))
    gate = b.node("mul", gate, b.tensor("ssm_a"))
    gate = reshape(gate, 1, heads, n)
    cache, kept_columns = _states(b, layer, "r")
    kernel = b.matrix("ssm_conv1d.weight")
    kept = kernel.shape[0] - 1
    joined = Tensor(
        "concat",
        (kept * b.batch.n_seq + n, channels, 1),
        (reshape(kept_columns, kept, channels, 1), view(mixed, n, channels, 1)),
    )
    for _ in range(1 + b.batch.rollback_rows):
        b.expand(write_into(view(cache, kept * channels), view(joined, kept, channels)))
    store, state = _states(b, layer, "s")
    state = reshape(state, dim, dim, heads)
    conv = b.node("unary", Tensor("ssm_conv", (channels, n, 1), (joined, kernel)))
    q, k = (b.node("scale", b.node("rms_norm", view(conv, dim, k_heads, n))) for _ in range(2))
    v = view(conv, dim, heads, n)
    size, rows = dim * dim * heads, 1 + b.batch.rollback_rows
    scan = Tensor(
        "gated_delta_net",
        (d_inner * n + size * rows * b.batch.n_seq,),
        (q, k, v, gate, beta, state),
    )
    b.expand(write_into(view(store, size), view(scan, size)))
    out = b.norm(view(scan, dim, heads, n), "ssm_norm")
    out = b.node("mul", out, b.node("unary", reshape(z, dim, heads, n)))
    last = b.matrix("ssm_out.weight")
    flat = reshape(out, d_inner, n, 1)
    return reshape(Tensor("mul_mat", (last.shape[1], n, 1), (last, flat)), last.shape[1], n)


def state_bytes(conv: int, state: int) -> int:
    """Bytes of one row of state: both parts are f32 whatever the KV type is."""
    return (conv + state) * F32
