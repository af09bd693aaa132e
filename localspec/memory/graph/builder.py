"""What every block needs while a graph is built: the batch, the tensors of the file, the inputs."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.ggufmeta.architecture import Architecture, Layer
from localspec.ggufmeta.ggml_types import BY_NAME
from localspec.memory.graph.tensors import F16, F32, I32, I64, Graph, Tensor, graph_input, weight


@dataclass(frozen=True, slots=True)
class Batch:
    """The largest pass a context reserves for."""

    n_tokens: int
    n_outputs: int
    cells: int
    """Cells of the full KV cache."""
    cells_swa: int
    """Cells of the sliding-window cache."""
    flash_attn: bool
    kv_type_k: str
    kv_type_v: str
    rollback_rows: int = 0
    n_seq: int = 1
    """Sequences the tokens are shared among; each brings its own recurrent state."""


class GraphUnknownError(Exception):
    """The model is built in a way that this package does not know."""


class Builder:
    """One graph under construction."""

    def __init__(
        self, architecture: Architecture, shapes: dict[str, tuple[int, ...]], batch: Batch
    ) -> None:
        """shapes: of every tensor in the file, by name."""
        self.arch = architecture
        self.shapes = shapes
        self.batch = batch
        self.graph = Graph()
        self._inputs: dict[str, Tensor] = {}
        self._layer = 0

    def at(self, layer: int) -> None:
        """The block whose tensors `has` and `tensor` look up from here on."""
        self._layer = layer

    def has(self, name: str) -> bool:
        return f"blk.{self._layer}.{name}" in self.shapes

    def tensor(self, name: str) -> Tensor:
        """A weight of the current block. Raises GraphUnknownError when the file lacks it."""
        return self.model_tensor(f"blk.{self._layer}.{name}")

    def model_tensor(self, name: str) -> Tensor:
        """A weight by its full name. Raises GraphUnknownError when the file lacks it."""
        if name not in self.shapes:
            raise GraphUnknownError(f"{self.arch.name} without {name}")
        return weight(name, *self.shapes[name])

    def matrix(self, name: str) -> Tensor:
        """As `tensor`, with at least two dimensions."""
        found = self.tensor(name)
        if len(found.shape) < 2:
            raise GraphUnknownError(f"{self.arch.name} with a flat {name}")
        return found

    def node(self, op: str, *sources: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
        return Tensor(op, shape or sources[0].shape, sources)

    def matmul(self, name: str, x: Tensor) -> Tensor:
        """`name` times `x`, with its bias where the file has one."""
        return self._biased(name, self.multiply(self.matrix(f"{name}.weight"), x))

    def multiply(self, a: Tensor, x: Tensor) -> Tensor:
        """ggml_mul_mat: one row of `a` for each row of the result."""
        return Tensor("mul_mat", (a.shape[1], *x.shape[1:]), (a, x))

    def norm(self, x: Tensor, name: str | None) -> Tensor:
        """RMS norm, and its weight where `name` names one of the current block."""
        normed = self.node("rms_norm", x)
        if name is None:
            return normed
        # falcon-h1 names one of its norms without `.weight`.
        full = f"{name}.weight" if self.has(f"{name}.weight") else name
        return self.node("mul", normed, self.tensor(full))

    def model_norm(self, x: Tensor, name: str) -> Tensor:
        return self.node("mul", self.node("rms_norm", x), self.model_tensor(name))

    def rows(self, table: Tensor, ids: Tensor) -> Tensor:
        """ggml_get_rows."""
        return Tensor("get_rows", (table.shape[0], *ids.shape), (table, ids))

    def expand(self, tensor: Tensor) -> None:
        self.graph.expand(tensor)

    def _biased(self, name: str, x: Tensor) -> Tensor:
        return self.node("add", x, self.tensor(f"{name}.bias")) if self.has(f"{name}.bias") else x

    # --- inputs, one of each per graph ---

    def input(self, name: str, *shape: int, element: int = F32) -> Tensor:
        if name not in self._inputs:
            self._inputs[name] = graph_input(*shape, element=element)
        return self._inputs[name]

    def positions(self) -> Tensor:
        wide = self.arch.name in _MROPE
        return self.input("pos", self.batch.n_tokens * (4 if wide else 1), element=I32)

    def out_ids(self) -> Tensor:
        return self.input("out_ids", self.batch.n_outputs, element=I32)

    def mask(self, layer: Layer) -> Tensor:
        """(cells, n_tokens) which cells each token may see."""
        cells = self.batch.cells_swa if layer.is_swa else self.batch.cells
        element = F16 if self.batch.flash_attn else F32
        return self.input(f"mask{layer.is_swa}", cells, self.batch.n_tokens, element=element)

    def key_rows(self, layer: Layer) -> Tensor:
        return self.input(f"k_idxs{layer.is_swa}", self.batch.n_tokens, element=I64)

    def value_rows(self, layer: Layer) -> Tensor:
        """A transposed V cache (no flash attention) is written element by element."""
        wide = 1
        if not self.batch.flash_attn:
            wide = max(
                other.n_head_kv * other.head_v for other in self.arch.layers if other.attends
            )
        return self.input(f"v_idxs{layer.is_swa}", self.batch.n_tokens * wide, element=I64)

    def rotation(self, layer: Layer, *, keys: bool) -> Tensor | None:
        """The Hadamard matrix that a quantised cache turns K or V by (llama-kv-cache.cpp)."""
        kind = self.batch.kv_type_k if keys else self.batch.kv_type_v
        heads = {
            (other.head_k if keys else other.head_v)
            for other in self.arch.trunk
            if other.attends and other.is_swa == layer.is_swa and other.reads_kv_of is None
        }
        first = self.arch.layers[0]
        own = first.head_k if keys else first.head_v
        if BY_NAME[kind].block == 1 or len(heads) != 1 or own % 64 or 0 in heads:
            return None
        width, size = heads.pop(), 64
        while keys and width % (2 * size) == 0:
            size *= 2
        return self.input(f"rot{keys}{layer.is_swa}", size, size)


_MROPE = frozenset({"qwen2vl", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "paddleocr"})
"""Positions have four parts."""
