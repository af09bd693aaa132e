"""Replay of llama.cpp's graph allocator (ggml/src/ggml-alloc.c): how large each buffer gets.

Best fit among free blocks, the last block grows, sources that die are overwritten or freed.
"""

from __future__ import annotations

from collections.abc import Callable

from localspec.memory.graph.tensors import Graph, Tensor

_ENDLESS = 1 << 62


class Arena:
    """One buffer: free blocks in order of address, and the highest address used."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.blocks: list[list[int]] = [[0, _ENDLESS]]
        self.peak = 0

    def padded(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def take(self, size: int) -> int:
        """Address of `size` bytes: the smallest free block that holds them, else the end."""
        size = self.padded(size)
        best, best_size = -1, _ENDLESS
        for index in range(len(self.blocks) - 1):
            length = self.blocks[index][1]
            # Of equal blocks the later one wins.
            if size <= length <= best_size:
                best, best_size = index, length
        if best < 0:
            best = len(self.blocks) - 1
        block = self.blocks[best]
        address = block[0]
        block[0] += size
        block[1] -= size
        if block[1] == 0:
            del self.blocks[best]
        self.peak = max(self.peak, address + size)
        return address

    def give(self, address: int, size: int) -> None:
        """Free bytes again, joined with their free neighbours."""
        size = self.padded(size)
        if size == 0:
            return
        blocks = self.blocks
        for index, block in enumerate(blocks):
            if block[0] + block[1] == address:
                block[1] += size
                if index + 1 < len(blocks) and block[0] + block[1] == blocks[index + 1][0]:
                    block[1] += blocks[index + 1][1]
                    del blocks[index + 1]
                return
            if address + size == block[0]:
                block[0] = address
                block[1] += size
                return
            if block[0] > address:
                blocks.insert(index, [address, size])
                return
        blocks.append([address, size])


class _Use:
    __slots__ = ("address", "allocated", "arena", "children", "views")

    def __init__(self) -> None:
        self.children = 0
        self.views = 0
        self.allocated = False
        self.arena = 0
        self.address = 0


def buffer_sizes(graph: Graph, n_devices: int, alignment: int = 32) -> list[int]:
    """(n_devices,) bytes of the compute buffer of each device.

    A node's `device` says where it is computed; leafs follow their first reader.
    """
    arenas = [Arena(alignment) for _ in range(n_devices)]
    uses: dict[int, _Use] = {}

    def use(tensor: Tensor) -> _Use:
        found = uses.get(id(tensor))
        if found is None:
            found = uses[id(tensor)] = _Use()
        return found

    def allocate(tensor: Tensor, device: int) -> None:
        mine = use(tensor)
        if mine.allocated or tensor.external or tensor.view is not None:
            return
        mine.allocated = True
        if tensor.can_overwrite and _overwrite(tensor, mine, use, arenas):
            return
        mine.arena = device
        mine.address = arenas[device].take(tensor.size)

    def free(tensor: Tensor) -> None:
        mine = use(tensor)
        arenas[mine.arena].give(mine.address, tensor.size)
        mine.allocated = False

    for leaf in graph.leafs:
        allocate(leaf, leaf.device or 0)
    for node in graph.nodes:
        if node.view is not None and node.op != "none":
            use(node.view).views += 1
        for source in node.sources:
            use(source).children += 1
    for node in graph.nodes:
        device = node.device or 0
        for source in node.sources:
            allocate(source, device)
        allocate(node, device)
        for source in node.sources:
            theirs = use(source)
            theirs.children -= 1
            if theirs.children or theirs.views:
                continue
            if source.view is not None:
                shown = use(source.view)
                shown.views -= 1
                if shown.views == 0 and shown.children == 0 and shown.allocated:
                    free(source.view)
            elif theirs.allocated:
                free(source)
    return [arena.peak for arena in arenas]


def _overwrite(
    tensor: Tensor, mine: _Use, use: Callable[[Tensor], _Use], arenas: list[Arena]
) -> bool:
    """Take over the memory of a source that dies here, giving back what is too much."""
    for source in tensor.sources:
        # Views own nothing, so llama.cpp never writes over what they show.
        if source.external or source.view is not None or not tensor.same_layout(source):
            continue
        theirs = use(source)
        if theirs.children != 1 or theirs.views != 0 or not theirs.allocated:
            continue
        mine.arena, mine.address = theirs.arena, theirs.address
        theirs.allocated = False
        return True
    return False
