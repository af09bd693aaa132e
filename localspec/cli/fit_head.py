"""What the head of a pair would take where nothing drafts with it yet: told, not counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localspec.errors import LocalspecError

if TYPE_CHECKING:
    from localspec.catalog.entries import CatalogPair
    from localspec.ggufmeta.header import Header
    from localspec.memory.request import LoadOptions
    from localspec.paths import Paths

_SHARES_CACHE = frozenset({"gemma4-assistant"})
"""Heads that read the target's cache and have none of their own (gemma4-assistant.cpp)."""


@dataclass(frozen=True, slots=True)
class HeadCost:
    """Bytes beside the target."""

    method: str
    """`eagle3`, `dflash`, `dspark` or `mtp`."""
    name: str
    weights: int
    """Exact, from the file's header."""
    kv: int | None
    """K and V of its own layers; None where the header does not tell."""


def head_cost(
    pair: CatalogPair | None, n_ctx: int, options: LoadOptions, paths: Paths
) -> HeadCost | None:
    """None for a pair without a head, or one whose file cannot be read here and now."""
    from localspec.hub.found_header import find_header
    from localspec.hub.resolve import locate
    from localspec.hub.store import Store

    if pair is None or pair.built or pair.draft is None:
        return None
    try:
        header = find_header(locate(pair.draft, Store(paths.models)), paths).header
    except LocalspecError:
        # What is only told beside the answer must not keep it from coming.
        return None
    kv = head_kv_bytes(header, n_ctx, options)
    return HeadCost(pair.method, pair.draft.shown, header.tensor_bytes, kv)


def head_kv_bytes(header: Header, n_ctx: int, options: LoadOptions) -> int | None:
    """K and V of the layers that a head brings along; None where its header does not tell."""
    from localspec.ggufmeta.architecture import read_architecture
    from localspec.memory.cache import kv_bytes, nextn_kv_bytes
    from localspec.memory.placement import place
    from localspec.memory.request import ModelLoad

    try:
        architecture = read_architecture(header)
    except LocalspecError:
        return None
    if architecture.name in _SHARES_CACHE:
        return 0
    load = ModelLoad(
        "draft",
        header,
        architecture,
        n_ctx,
        kv_type=options.draft_kv_type,
        flash_attn=options.flash_attn is not False,
        with_nextn=architecture.n_nextn > 0,
    )
    # A file of next-token-prediction blocks has the target's other layers by number only.
    count = nextn_kv_bytes if architecture.n_nextn else kv_bytes
    return sum(count(load, place(load, ())))
