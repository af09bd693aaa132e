"""Laws of memory plans that hold whatever the model and the settings are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.ggufmeta.architecture import read_architecture
from localspec.ggufmeta.header import Header, read_header
from localspec.memory.cache import kv_bytes
from localspec.memory.devices import imagined_machine
from localspec.memory.fit import CTX_STEP, at_ctx, estimator, max_ctx_that_fits, max_gpu_layers
from localspec.memory.placement import place
from localspec.memory.plan import Plan, estimate
from localspec.memory.request import ModelLoad
from localspec.units import GIB, MIB
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import FAMILIES, write_tiny

GHOSTS = ("llama-3.1-8b", "gemma-3-270m", "lfm2-1.2b")


@cache
def header(name: str) -> Header:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.gguf"
        if name in FAMILIES:
            return read_header(write_tiny(path, name, n_ctx_train=32768))
        return read_header(write_ghost_of(name, path))


def load(name: str, n_ctx: int = 4096, **options: object) -> ModelLoad:
    found = header(name)
    base = ModelLoad("target", found, read_architecture(found), n_ctx, n_outputs=9)
    return replace(base, **options)  # type: ignore[arg-type]


def required(plan: Plan) -> list[int]:
    return [fit.required for fit in (*plan.gpus, plan.host)]


names = st.sampled_from(FAMILIES)
contexts = st.integers(256, 32768)
machine = imagined_machine(vram=[8 * GIB])


@settings(deadline=None, max_examples=60)
@given(names, contexts, contexts, st.booleans())
def test_more_context_never_needs_less(name: str, one: int, other: int, flash: bool) -> None:
    less, more = sorted((one, other))
    small = estimate([load(name, less, flash_attn=flash, n_ubatch=256)], machine)
    large = estimate([load(name, more, flash_attn=flash, n_ubatch=256)], machine)
    assert all(a <= b for a, b in zip(required(small), required(large), strict=True))


@settings(deadline=None, max_examples=60)
@given(names, contexts)
def test_smaller_kv_type_never_needs_a_larger_cache(name: str, n_ctx: int) -> None:
    sizes = []
    for kv_type in ("f32", "f16", "q8_0", "q5_0", "q4_0"):
        one = load(name, n_ctx, kv_type=kv_type)
        sizes.append(sum(kv_bytes(one, place(one, ()))))
    assert sizes == sorted(sizes, reverse=True)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(GHOSTS), st.integers(8192, 32768))
def test_smaller_kv_type_never_needs_more_in_all(name: str, n_ctx: int) -> None:
    totals = [
        estimate([load(name, n_ctx, kv_type=kv_type)], machine).required
        for kv_type in ("f16", "q8_0", "q4_0")
    ]
    assert totals == sorted(totals, reverse=True)


@settings(deadline=None, max_examples=40)
@given(names, st.integers(0, 10), st.integers(0, 10))
def test_more_gpu_layers_move_weights_and_caches_to_the_gpu(
    name: str, one: int, other: int
) -> None:
    fewer, more = sorted((one, other))
    on_gpu = []
    for layers in (fewer, more):
        plan = estimate([load(name, gpu_layers=layers)], machine)
        kept = [p for p in plan.gpus[0].parts if p.kind in ("weights", "kv", "recurrent")]
        on_gpu.append(sum(part.bytes for part in kept))
    assert on_gpu[0] <= on_gpu[1]


@settings(deadline=None, max_examples=40)
@given(names, st.lists(st.integers(1, 48), min_size=1, max_size=3), st.integers(0, 9))
def test_no_byte_of_the_file_is_lost_or_doubled(name: str, cards: list[int], layers: int) -> None:
    """Untied models: what is on all devices together is the file's tensors."""
    several = imagined_machine(vram=[size * GIB for size in cards])
    plan = estimate([load(name, gpu_layers=layers)], several)
    assert plan.weights == header(name).tensor_bytes


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(("llama", "gqa", "moe", "mla")), st.integers(3, 60))
def test_solver_finds_the_last_context_that_fits(name: str, megabytes: int) -> None:
    small = imagined_machine(vram=[400 * MIB + megabytes * MIB])
    loads = [load(name, n_ubatch=64)]
    planner = estimator(small)
    found = max_ctx_that_fits(loads, planner)
    assert found % CTX_STEP == 0
    if found:
        assert planner(at_ctx(loads, found)).fits
    if found < 32768:
        assert not planner(at_ctx(loads, found + CTX_STEP)).fits


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(("llama", "hybrid_rollback", "swa")), st.integers(1, 12))
def test_solver_finds_the_most_layers_that_fit(name: str, megabytes: int) -> None:
    small = imagined_machine(vram=[400 * MIB + megabytes * MIB // 4])
    loads = [load(name, 512, n_ubatch=32)]
    planner = estimator(small)
    found = max_gpu_layers(loads, planner)
    if found is None:
        assert not planner([replace(loads[0], gpu_layers=0)]).fits
        return
    assert planner([replace(loads[0], gpu_layers=found)]).fits
    if found < len(loads[0].architecture.layers) + 1:
        assert not planner([replace(loads[0], gpu_layers=found + 1)]).fits


@settings(deadline=None, max_examples=20)
@given(names, st.integers(0, 8), st.integers(0, 8))
def test_more_rollback_rows_never_need_less(name: str, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    sizes = [
        sum(required(estimate([load(name, 512, rollback_rows=rows)], machine)))
        for rows in (fewer, more)
    ]
    assert sizes[0] <= sizes[1]
