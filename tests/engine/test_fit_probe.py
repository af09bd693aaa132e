"""Plans against llama.cpp itself: the probe, real loads, and what the solver promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.engine.probing import probe_in_child
from localspec.errors import EngineError
from localspec.ggufmeta.ghost import ghost_model
from localspec.ggufmeta.header import read_header
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import Context, ContextOptions
from localspec.llama.log import NativeLog
from localspec.llama.model import LoadOptions as ModelOptions
from localspec.llama.model import Model
from localspec.llama.probe import run_probe
from localspec.memory.cache import kv_bytes, recurrent_bytes
from localspec.memory.compute import compute_bytes
from localspec.memory.devices import Device, Machine
from localspec.memory.fit import CTX_STEP, at_ctx, estimator, max_ctx_that_fits
from localspec.memory.placement import place
from localspec.memory.plan import Plan, estimate
from localspec.memory.probe import ProbeLog, ProbeRequest, parse_log, probe, request_for
from localspec.memory.request import LoadOptions, ModelLoad, make_loads
from localspec.units import MIB
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import FAMILIES, LAID_OUT, write_tiny

pytestmark = pytest.mark.engine

ROUNDING = int(0.0051 * MIB)


def in_process(requests: object) -> list[ProbeLog]:
    return [run_probe(request) for request in requests]  # type: ignore[attr-defined]


def cpu(free: int) -> Machine:
    return Machine((), Device("CPU", free, free))


def by_kind(plan: Plan) -> dict[str, int]:
    found: dict[str, int] = {}
    for fit in (*plan.gpus, plan.host):
        for part in fit.parts:
            found[part.kind] = found.get(part.kind, 0) + part.bytes
    return found


def assert_same(load: ModelLoad, path: Path) -> None:
    machine = cpu(1 << 40)
    ours = by_kind(estimate([load], machine))
    theirs = by_kind(probe([load], [path], machine, in_process))
    assert ours["weights"] == theirs["weights"]
    assert ours["output"] == theirs["output"]
    for kind, slack in (("kv", 2 * ROUNDING), ("recurrent", ROUNDING)):
        assert abs(ours.get(kind, 0) - theirs.get(kind, 0)) <= slack, kind
    bound = max(8 * MIB, theirs["compute"] // 20)
    assert abs(ours["compute"] - theirs["compute"]) <= bound
    if theirs["compute"] < 8 * MIB:
        # The bound of the large says nothing about the small: these are equal.
        assert abs(ours["compute"] - theirs["compute"]) <= ROUNDING


@pytest.mark.parametrize("family", [*FAMILIES, *LAID_OUT])
@pytest.mark.parametrize(
    "options",
    [
        LoadOptions(n_ctx=512, draft_max=4),
        LoadOptions(n_ctx=2048, draft_max=4, n_ubatch=64, flash_attn=False),
        LoadOptions(n_ctx=300, draft_max=8, n_ubatch=200),
        LoadOptions(n_ctx=1024, draft_max=4, n_seq=4),
        LoadOptions(n_ctx=4096, draft_max=4, n_ubatch=64, kv_type="f32"),
        LoadOptions(n_ctx=2048, draft_max=4, n_ubatch=64, kv_type="f32", flash_attn=False),
    ],
    ids=["plain", "without-flash", "odd", "four-sequences", "f32", "f32-without-flash"],
)
def test_tiny_models_of_every_kind(family: str, options: LoadOptions, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", family)
    (load,) = make_loads(read_header(path), None, options)
    assert_same(load, path)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "gemma-3-270m", "lfm2-1.2b", "gpt-oss-20b"])
@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "f32"])
def test_ghosts_of_real_models(name: str, kv_type: str, tmp_path: Path) -> None:
    path = write_ghost_of(name, tmp_path / "g.gguf")
    (load,) = make_loads(read_header(path), None, LoadOptions(n_ctx=6000, kv_type=kv_type))
    assert_same(load, path)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "gemma-3-270m", "lfm2-1.2b"])
def test_what_the_solver_promises_holds_in_the_probe(name: str, tmp_path: Path) -> None:
    path = write_ghost_of(name, tmp_path / "g.gguf")
    loads = make_loads(read_header(path), None, LoadOptions())
    # The log rounds to hundredths of a MiB; one step of context is much more than that.
    budget = estimate(at_ctx(loads, 11000), cpu(1 << 40)).required + MIB // 16
    machine = cpu(budget)
    found = max_ctx_that_fits(loads, estimator(machine))
    assert 0 < found < loads[0].architecture.n_ctx_train
    assert probe(at_ctx(loads, found), [path], machine, in_process).fits
    assert not probe(at_ctx(loads, found + CTX_STEP), [path], machine, in_process).fits


@pytest.mark.parametrize("family", [*FAMILIES, *LAID_OUT])
def test_real_load_takes_what_was_planned(family: str, tmp_path: Path) -> None:
    """Not a ghost: the weights are there and every buffer is allocated."""
    path = write_tiny(tmp_path / "a.gguf", family)
    (load,) = make_loads(read_header(path), None, LoadOptions(n_ctx=512, draft_max=4))
    log = NativeLog(keep=20_000)
    model = Model(path, ModelOptions(gpu_layers=0), log)
    assert model.size == load.header.tensor_bytes
    context = Context(
        model,
        ContextOptions(
            n_ctx=512,
            n_ubatch=load.ubatch,
            n_outputs_max=load.n_outputs,
            rollback_rows=load.rollback_rows,
            flash_attn="on",
        ),
        CancelFlag(),
        log,
    )
    figures = parse_log(log.lines())
    context.close()
    model.close()
    placement = place(load, ())
    compute = sum(figures.compute.values())
    assert abs(compute - sum(compute_bytes(load, placement))) <= ROUNDING
    assert abs(figures.kv - sum(kv_bytes(load, placement))) <= 2 * ROUNDING
    states = sum(figures.recurrent.values())
    assert abs(states - sum(recurrent_bytes(load, placement))) <= ROUNDING


def test_ghost_of_a_file_answers_like_the_file(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "swa")
    header = read_header(path)
    (load,) = make_loads(header, None, LoadOptions(n_ctx=512))
    folder = tmp_path / "ghosts"
    folder.mkdir()
    ghost = ghost_model(header, folder)
    assert ghost.stat().st_size == path.stat().st_size
    machine = cpu(1 << 40)
    assert by_kind(probe([load], [ghost], machine, in_process)) == by_kind(
        probe([load], [path], machine, in_process)
    )


def test_child_process_answers_for_both_models_at_once(tmp_path: Path) -> None:
    target = write_tiny(tmp_path / "t.gguf", "gqa")
    draft = write_tiny(tmp_path / "d.gguf", "llama")
    loads = make_loads(read_header(target), read_header(draft), LoadOptions(n_ctx=512))
    machine = cpu(1 << 40)
    apart = probe(loads, [target, draft], machine, in_process)
    assert by_kind(probe(loads, [target, draft], machine, probe_in_child)) == by_kind(apart)


def test_file_that_llama_cpp_refuses_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "llama")
    (load,) = make_loads(read_header(path), None, LoadOptions(n_ctx=512))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(EngineError, match="cannot plan"):
        probe([load], [broken], cpu(1 << 40), probe_in_child)


@pytest.mark.parametrize("flash_attn", [True, False])
def test_context_for_next_token_blocks(flash_attn: bool, tmp_path: Path) -> None:
    path = write_ghost_of("qwen3.5-27b-nextn", tmp_path / "g.gguf")
    options = LoadOptions(n_ctx=4096, with_nextn=True, flash_attn=flash_attn)
    (load,) = make_loads(read_header(path), None, options)
    (log,) = in_process([replace(request_for(load, path), nextn=True)])
    figures = parse_log(log.lines)
    plan = estimate([load], cpu(1 << 40))
    second = {part.kind: part.bytes for part in plan.host.parts if part.model == "mtp"}
    assert figures.unused == 0
    assert plan.weights == log.tensor_bytes
    assert abs(second["kv"] - figures.kv) <= ROUNDING
    assert abs(second["compute"] - sum(figures.compute.values())) <= ROUNDING


def test_request_carries_everything_the_estimate_knows(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "hybrid_rollback")
    (load,) = make_loads(read_header(path), None, LoadOptions(n_ctx=512, draft_max=5))
    request = request_for(replace(load, gpu_layers=3), path)
    assert request == ProbeRequest(
        path=path,
        n_ctx=512,
        n_batch=2048,
        n_ubatch=512,
        n_outputs=6,
        n_seq=1,
        kv_type="f16",
        flash_attn=True,
        gpu_layers=3,
        rollback_rows=5,
    )
