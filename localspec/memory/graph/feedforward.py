"""Feed-forward blocks: dense, experts, shared. Follows llama-graph.cpp build_ffn, build_moe_ffn."""

from __future__ import annotations

from localspec.memory.graph.builder import Builder
from localspec.memory.graph.tensors import I32, Tensor, reshape, view

_NORMED_WEIGHTS = frozenset(
    {
        "qwen3moe",
        "qwen35moe",
        "qwen3next",
        "granitehybrid",
        "granitemoe",
        "deepseek2",
        "glm4moe",
        "llama",
        "ernie4_5-moe",
        "lfm2moe",
        "dots1",
        "bailingmoe2",
        "laguna",
    }
)
"""The weights of the chosen experts are divided by their sum."""
_SIGMOID = frozenset({"deepseek2", "glm4moe", "lfm2moe", "bailingmoe2", "dots1", "laguna"})


def feed_forward(b: Builder, x: Tensor) -> Tensor:
    """(n_embd, n_tokens) of the current block's feed-forward part."""
    if not b.has("ffn_gate_inp.weight"):
        return dense(b, x, "ffn_gate", "ffn_up", "ffn_down")
    out = experts(b, x)
    if b.has("ffn_up_shexp.weight"):
        shared = dense(b, x, "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
        if b.has("ffn_gate_inp_shexp.weight"):
            gate = Tensor("mul_mat", (1, x.shape[1]), (b.tensor("ffn_gate_inp_shexp.weight"), x))
            shared = b.node("mul", shared, b.node("unary", gate))
        out = b.node("add", out, shared)
    return out


def dense(b: Builder, x: Tensor, gate: str, up: str, down: str) -> Tensor:
    """Gated where the block has a gate; a wide `up` holds both halves (phi3, glm4)."""
    raised = b.matmul(up, x)
    n_ff = b.tensor(f"{down}.weight").shape[0]
    if b.has(f"{gate}.weight"):
        hidden = Tensor("glu", raised.shape, (b.matmul(gate, x), raised))
    elif raised.shape[0] == 2 * n_ff:
        hidden = Tensor("glu", (n_ff, *raised.shape[1:]), (raised,))
    else:
        hidden = b.node("unary", raised)
        if b.arch.name.startswith("nemotron"):
            hidden = b.node("sqr", hidden)
    return b.matmul(down, hidden)


def experts(b: Builder, x: Tensor) -> Tensor:
    """The routed experts of a mixture, their sum."""
    n, used = x.shape[1], b.arch.n_expert_used
    n_expert = b.matrix("ffn_gate_inp.weight").shape[1]
    name = b.arch.name
    scores = b.matmul("ffn_gate_inp", x)
    late_softmax = name == "gpt-oss"
    if not late_softmax:
        scores = b.node("unary" if name in _SIGMOID else "soft_max", scores)
    chosen_by = scores
    if b.has("exp_probs_b.bias"):
        chosen_by = b.node("add", scores, b.tensor("exp_probs_b.bias"))
    order = Tensor("argsort", (n_expert, n), (chosen_by,), element=I32)
    chosen = view(order, used, n)
    weights = Tensor("get_rows", (1, used, n), (reshape(scores, 1, n_expert, n), chosen))
    if late_softmax:
        weights = reshape(b.node("soft_max", reshape(weights, used, n)), 1, used, n)
    elif name in _NORMED_WEIGHTS:
        flat = reshape(weights, used, n)
        total = b.node("clamp", Tensor("sum_rows", (1, n), (flat,)))
        weights = reshape(b.node("div", flat, total), 1, used, n)
    b.expand(weights)
    hidden = _expert_hidden(b, reshape(x, x.shape[0], 1, n), chosen, used, n)
    out = _by_expert(b, "ffn_down_exps", hidden, chosen, used, n)
    out = b.node("mul", out, weights)
    b.expand(out)
    parts = [view(out, out.shape[0], n) for _ in range(used)]
    for part in parts:
        b.expand(part)
    total = parts[0]
    for part in parts[1:]:
        total = Tensor("add", (out.shape[0], n), (total, part))
        b.expand(total)
    return total if used > 1 else Tensor("cont", total.shape, (total,))


def _expert_hidden(b: Builder, x: Tensor, chosen: Tensor, used: int, n: int) -> Tensor:
    if b.has("ffn_gate_up_exps.weight"):
        both = _by_expert(b, "ffn_gate_up_exps", x, chosen, used, n)
        half = both.shape[0] // 2
        return Tensor(
            "glu", (half, used, n), (view(both, half, used, n), view(both, half, used, n))
        )
    raised = _by_expert(b, "ffn_up_exps", x, chosen, used, n)
    if not b.has("ffn_gate_exps.weight"):
        return b.node("unary", raised)
    return Tensor("glu", raised.shape, (_by_expert(b, "ffn_gate_exps", x, chosen, used, n), raised))


def _by_expert(b: Builder, name: str, x: Tensor, chosen: Tensor, used: int, n: int) -> Tensor:
    matrix = b.matrix(f"{name}.weight")
    out = Tensor("mul_mat_id", (matrix.shape[1], used, n), (matrix, x, chosen))
    if b.has(f"{name}.bias"):
        out = Tensor("add_id", out.shape, (out, b.tensor(f"{name}.bias"), chosen))
    return out
