"""A verdict for every pair of the catalogue whose headers can be modelled, on many machines."""

from __future__ import annotations

from functools import cache

import pytest

from localspec.catalog.load import load_catalog
from localspec.memory.devices import Machine, imagined_machine
from localspec.memory.plan import Plan, estimate
from localspec.memory.request import LoadOptions, make_loads
from localspec.paths import Paths
from localspec.units import GIB
from tests.support.ghosts import CATALOG_PAIRS, ghost_header

CARDS = (8, 12, 16, 24, 32)
MACS = (16, 36, 64)

# At 8192 tokens of context, f16 caches: the smallest card in GiB, and the smallest Mac in GB, that
# holds target and draft; None is none of them. As the estimate gives it on Q4_K_M-like ghosts.
SMALLEST = {
    "qwen3-32b+0.6b": (24, 36),
    "qwen3-14b+0.6b": (12, 36),
    "qwen3-8b+0.6b": (8, 16),
    "qwen2.5-coder-32b+0.5b": (24, 36),
    "llama-3.3-70b+3.2-1b": (None, 64),
    "llama-3.1-70b+3.1-8b": (None, None),
    "llama-3.1-8b+3.2-1b": (8, 16),
    "gemma-3-27b+1b": (24, 36),
    "gemma-3-12b+270m": (12, 16),
    "mistral-small-3.1-24b+draft-0.5b": (16, 36),
    "deepseek-r1-distill-qwen-32b+1.5b": (24, 36),
    "qwen3.5-27b+0.8b": (24, 36),
    "qwen3-4b+dflash": (8, 16),
    "qwen3.5-9b+dflash": (8, 16),
    "qwen3.6-27b+dflash": (24, 36),
    "gemma-4-31b+mtp": (24, 36),
    "gemma-4-e4b+mtp": (8, 16),
    "gpt-oss-20b": (12, 36),
    "qwen3-coder-30b-a3b": (24, 36),
    "smollm2-1.7b": (8, 16),
}


@cache
def plan(pair: str, machine: Machine) -> Plan:
    target, draft = CATALOG_PAIRS[pair]
    header = ghost_header(draft) if draft is not None else None
    return estimate(make_loads(ghost_header(target), header, LoadOptions(n_ctx=8192)), machine)


def smallest(pair: str, machines: dict[int, Machine]) -> int | None:
    return next((size for size, machine in machines.items() if plan(pair, machine).fits), None)


@pytest.mark.parametrize("pair", list(CATALOG_PAIRS))
def test_smallest_machine_that_holds_the_pair(pair: str) -> None:
    cards = {size: imagined_machine(vram=[size * GIB]) for size in CARDS}
    macs = {size: imagined_machine(unified=size * 10**9) for size in MACS}
    assert (smallest(pair, cards), smallest(pair, macs)) == SMALLEST[pair]


@pytest.mark.parametrize("pair", list(CATALOG_PAIRS))
def test_more_memory_never_makes_it_worse(pair: str) -> None:
    for machines in (
        [imagined_machine(vram=[size * GIB], ram=64 * GIB) for size in CARDS],
        [imagined_machine(unified=size * 10**9) for size in MACS],
    ):
        headrooms = [plan(pair, machine).gpus[0].headroom for machine in machines]
        assert headrooms == sorted(headrooms)


def test_the_pairs_are_those_of_the_catalogue(tmp_path: object) -> None:
    from pathlib import Path

    empty = Path(str(tmp_path))
    known = load_catalog(Paths(empty, empty, empty)).pairs
    assert set(CATALOG_PAIRS) <= set(known)
