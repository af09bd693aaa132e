"""Copies between devices: what a scheduler adds where a graph changes its device.

Follows ggml-backend.cpp ggml_backend_sched_split_graph: each tensor that a device reads from
another is copied once, into the reader's compute buffer.
"""

from __future__ import annotations

from localspec.memory.graph.tensors import Graph, Tensor


def add_copies(graph: Graph, host: int) -> Graph:
    """A graph whose nodes read only from their own device. Inputs and lookups are the host's."""
    out = Graph()
    out.leafs = graph.leafs
    for leaf in out.leafs:
        leaf.device = host
    copies: dict[tuple[int, int], Tensor] = {}
    for node in graph.nodes:
        device = host if node.device is None else node.device
        if node.op == "view":
            device = _home(node, host)
        node.device = device
        if node.op != "view":
            node.sources = tuple(
                _local(source, device, host, copies, out) for source in node.sources
            )
        out.nodes.append(node)
    return out


def _home(tensor: Tensor, host: int) -> int:
    owner = tensor.view or tensor
    return host if owner.device is None else owner.device


def _local(
    source: Tensor, device: int, host: int, copies: dict[tuple[int, int], Tensor], out: Graph
) -> Tensor:
    if source.external or _home(source, host) == device:
        return source
    key = (id(source), device)
    if key not in copies:
        # The first node keeps the original until here; the second is the copy.
        keep = Tensor("view", source.shape, (source,), element=source.element, view=source)
        keep.device = _home(source, host)
        copy = Tensor("copy", source.shape, element=source.element, device=device)
        copies[key] = copy
        out.nodes += [keep, copy]
    return copies[key]
