"""Sizes-only tensors and the order in which a graph computes them (ggml.c)."""

from __future__ import annotations

from math import prod

F32, F16, I32, I64 = 4, 2, 4, 8
"""Bytes of an element."""

_INPLACE = frozenset(
    {
        "scale",
        "add",
        "add_id",
        "sub",
        "mul",
        "div",
        "sqr",
        "sqrt",
        "log",
        "unary",
        "rope",
        "rms_norm",
        "clamp",
        "soft_max",
        "fill",
    }
)
"""Operations that may write over one of their sources (ggml-alloc.c, ggml_op_can_inplace)."""


class Tensor:
    """One result in the graph.

    shape: ggml's order, contiguous dimension first. `external` tensors (weights, caches) lie in
    buffers of their own. `view` is the tensor whose memory this one shows.
    """

    __slots__ = (
        "contiguous",
        "device",
        "element",
        "external",
        "is_input",
        "op",
        "shape",
        "size",
        "sources",
        "view",
    )

    def __init__(
        self,
        op: str,
        shape: tuple[int, ...],
        sources: tuple[Tensor, ...] = (),
        *,
        element: int = F32,
        view: Tensor | None = None,
        external: bool = False,
        is_input: bool = False,
        contiguous: bool = True,
        device: int | None = None,
    ) -> None:
        self.op = op
        self.shape = shape
        self.sources = sources
        self.element = element
        # A view of a view shows the first tensor's memory.
        shown: Tensor | None = view.view if view is not None else None
        self.view: Tensor | None = shown or view
        self.external = external
        self.is_input = is_input
        self.contiguous = contiguous
        self.device = device
        self.size = prod(shape) * element

    @property
    def can_overwrite(self) -> bool:
        return self.op in _INPLACE

    def same_layout(self, other: Tensor) -> bool:
        return (
            self.contiguous
            and other.contiguous
            and self.element == other.element
            and self.shape == other.shape
        )


class Graph:
    """Nodes in the order of computation and leafs in the order they were met."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leafs: list[Tensor] = []
        self._seen: set[int] = set()
        self.device = 0
        """Given to every node that has none when it is expanded."""

    def place(self, tensor: Tensor) -> None:
        """Give the current device to what `tensor` is made of and has none yet."""
        pending = [tensor]
        while pending:
            current = pending.pop()
            if current.device is None and current.op != "none":
                current.device = self.device
                pending.extend(current.sources)

    def expand(self, tensor: Tensor) -> None:
        """Add `tensor` after everything it depends on, depth first (ggml_build_forward_expand)."""
        stack: list[tuple[Tensor, int]] = [(tensor, 0)]
        while stack:
            current, index = stack.pop()
            if index == 0:
                if id(current) in self._seen:
                    continue
                self._seen.add(id(current))
            if index < len(current.sources):
                stack.append((current, index + 1))
                child = current.sources[index]
                if id(child) not in self._seen:
                    stack.append((child, 0))
                continue
            if current.op == "none":
                self.leafs.append(current)
            else:
                if current.device is None:
                    current.device = self.device
                self.nodes.append(current)


def weight(name: str, *shape: int) -> Tensor:
    """A tensor of the model file; `name` only tells it apart."""
    return Tensor("none", shape, external=True)


def graph_input(*shape: int, element: int = F32) -> Tensor:
    """Something the program writes before every pass."""
    return Tensor("none", shape, element=element, is_input=True)


def view(of: Tensor, *shape: int, contiguous: bool = False) -> Tensor:
    """Part of a tensor, or the same elements in another order."""
    return Tensor(
        "view",
        shape,
        (of,),
        element=of.element,
        view=of,
        external=of.external,
        contiguous=contiguous and of.contiguous,
    )


def reshape(of: Tensor, *shape: int) -> Tensor:
    return view(of, *shape, contiguous=True)


def result(op: str, *sources: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """A new f32 tensor of the first source's shape, or of `shape`."""
    return Tensor(op, shape or sources[0].shape, sources)


def write_into(cache: Tensor, *sources: Tensor) -> Tensor:
    """A store into a cache: a node without memory of its own."""
    return Tensor("store", (0,), (*sources, cache), view=cache, external=True)
