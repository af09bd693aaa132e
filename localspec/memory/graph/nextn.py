"""The graph of a next-token-prediction context: the block after the trunk, on the target's weights.

Follows qwen35.cpp graph_mtp; the other models with such blocks build them alike.
"""

from __future__ import annotations

from localspec.ggufmeta.architecture import Architecture
from localspec.memory.graph.attention import attention
from localspec.memory.graph.builder import Batch, Builder
from localspec.memory.graph.feedforward import feed_forward
from localspec.memory.graph.tensors import I32, Graph, Tensor


def build_nextn_graph(
    arch: Architecture,
    shapes: dict[str, tuple[int, ...]],
    batch: Batch,
    device: int = 0,
    host: int = 0,
) -> Graph:
    """The graph of one pass of the first next-token-prediction block.

    Raises GraphUnknownError for a model without one.
    """
    layer = arch.layers[arch.n_layer]
    b = Builder(arch, shapes, batch)
    b.at(layer.index)
    b.graph.device = host
    tokens = b.input("tokens", batch.n_tokens, element=I32)
    embedded = b.rows(b.model_tensor("token_embd.weight"), tokens)
    b.expand(embedded)
    b.graph.device = device
    hidden = b.input("hidden", arch.n_embd, batch.n_tokens)
    joined = Tensor(
        "concat",
        (2 * arch.n_embd, batch.n_tokens),
        (b.norm(embedded, "nextn.enorm"), b.norm(hidden, "nextn.hnorm")),
    )
    x = b.matmul("nextn.eh_proj", joined)
    x = b.node("add", attention(b, layer, b.norm(x, "attn_norm")), x)
    norm = "ffn_norm" if b.has("ffn_norm.weight") else "post_attention_norm"
    x = b.node("add", feed_forward(b, b.norm(x, norm)), x)
    if b.has("nextn.shared_head_norm.weight"):
        x = b.norm(x, "nextn.shared_head_norm")
    else:
        x = b.model_norm(x, "output_norm.weight")
    x = b.rows(x, b.out_ids())
    own = f"blk.{layer.index}.nextn.shared_head_head.weight"
    names = (own, "output.weight", "token_embd.weight")
    b.expand(b.multiply(b.model_tensor(next(n for n in names if n in shapes)), x))
    return b.graph
