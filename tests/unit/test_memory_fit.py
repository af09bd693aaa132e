"""Devices, placement, plans, probes of canned logs, and what is suggested."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from localspec.errors import EngineError, UsageError
from localspec.ggufmeta.header import Header, read_header
from localspec.memory import devices
from localspec.memory.cards import CARDS, find_card, metal_budget
from localspec.memory.devices import CUDA_CONTEXT, Device, Machine, imagined_machine, this_machine
from localspec.memory.fit import SmallerFile, answer, estimator
from localspec.memory.placement import place
from localspec.memory.plan import Plan, estimate
from localspec.memory.probe import ProbeLog, ProbeRequest, parse_log, probe
from localspec.memory.request import LoadOptions, ModelLoad, make_loads
from localspec.units import GIB, MIB
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import write_tiny


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Header]:
    folder = tmp_path_factory.mktemp("fit")
    names = ("qwen3-32b", "qwen3-0.6b", "llama-3.1-8b", "qwen3.5-27b", "gemma-3-27b")
    return {name: read_header(write_ghost_of(name, folder / name)) for name in names}


def pair(headers: dict[str, Header], **options: object) -> tuple[ModelLoad, ...]:
    return make_loads(headers["qwen3-32b"], headers["qwen3-0.6b"], LoadOptions(**options))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Native:
    name: str
    kind: str
    free: int
    total: int
    description: str = ""


def test_draft_is_counted_with_the_context_of_the_target(headers: dict[str, Header]) -> None:
    plan = estimate(pair(headers, n_ctx=32768), imagined_machine(vram=[24 * GIB]))
    parts = {(part.model, part.kind): part.bytes for part in plan.gpus[0].parts}
    # 28 layers, 8 heads of 128, K and V of two bytes each.
    assert parts["draft", "kv"] == 28 * 2 * 8 * 128 * 2 * 32768
    assert parts["draft", "weights"] > 300 * MIB
    assert not plan.fits
    assert plan.shortfall > 0


def no_card(free: int) -> Machine:
    return Machine((), Device("CPU", free, free), imagined=True)


def flash(plan: Plan) -> set[bool | None]:
    return {load.flash_attn for load in plan.loads}


def test_flash_attention_left_open_is_off_where_the_processor_is_faster_without(
    headers: dict[str, Header], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    loads = pair(headers, flash_attn=None)
    card = imagined_machine(vram=[48 * GIB])
    assert flash(estimate(loads, no_card(64 * GIB))) == {False}
    assert flash(estimate(loads, card)) == {True}
    host_only = pair(headers, flash_attn=None, gpu_layers=0, draft_gpu_layers=0)
    assert flash(estimate(host_only, card)) == {False}
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert flash(estimate(loads, no_card(64 * GIB))) == {True}


def test_flash_attention_stays_where_it_is_needed(
    headers: dict[str, Header], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    quantised = pair(headers, flash_attn=None, draft_kv_type="q8_0")
    assert flash(estimate(quantised, no_card(64 * GIB))) == {True}
    # 64 heads, 512 tokens, 32768 cells of four bytes: 4 GiB of scores.
    long = pair(headers, flash_attn=None, n_ctx=32768)
    assert flash(estimate(long, no_card(256 * GIB))) == {True}
    with_it = estimate(pair(headers, flash_attn=True), no_card(64 * GIB)).required
    without = estimate(pair(headers, flash_attn=False), no_card(64 * GIB)).required
    open_ = pair(headers, flash_attn=None)
    assert with_it < without
    assert flash(estimate(open_, no_card(without))) == {False}
    assert flash(estimate(open_, no_card(without - 1))) == {True}
    assert estimate(open_, no_card(with_it)).fits


def test_context_is_the_models_own_up_to_8192(headers: dict[str, Header]) -> None:
    assert {load.n_ctx for load in pair(headers)} == {8192}
    assert {load.n_ctx for load in pair(headers, n_ctx=300)} == {300}
    assert pair(headers, n_ctx=300)[0].cells == 512


def test_target_gets_rows_for_a_round_and_the_draft_one(headers: dict[str, Header]) -> None:
    target, draft = pair(headers, draft_max=7)
    assert (target.n_outputs, draft.n_outputs) == (8, 1)


def test_options_that_cannot_be_are_refused(headers: dict[str, Header]) -> None:
    with pytest.raises(UsageError, match="q9_9"):
        pair(headers, kv_type="q9_9")
    with pytest.raises(UsageError, match="flash attention"):
        pair(headers, kv_type="q8_0", flash_attn=False)


def test_layers_leave_the_gpu_from_the_front(headers: dict[str, Header]) -> None:
    load = pair(headers, gpu_layers=10)[0]
    placement = place(load, [1.0])
    assert placement.layers == (1,) * 55 + (0,) * 9
    assert placement.output == 0
    assert placement.on_gpu == 10
    assert place(replace(load, gpu_layers=0), [1.0]).on_gpu == 0
    assert place(replace(load, gpu_layers=None), [1.0]).on_gpu == 65


def test_cards_share_layers_by_their_memory(headers: dict[str, Header]) -> None:
    load = pair(headers)[0]
    placement = place(load, [24.0, 12.0])
    # 65 slots, the output is the last: two thirds and one third of them.
    assert placement.layers.count(0) == 44
    assert placement.output == 1
    split = place(replace(load, tensor_split=(1.0, 3.0)), [24.0, 12.0])
    assert split.layers.count(0) == 17


def test_tied_embeddings_are_on_both_sides(headers: dict[str, Header]) -> None:
    header = headers["gemma-3-27b"]
    loads = make_loads(header, None, LoadOptions())
    table = next(t.nbytes for t in header.tensors if t.name == "token_embd.weight")
    on_gpu = estimate(loads, imagined_machine(vram=[32 * GIB]))
    on_cpu = estimate(loads, imagined_machine(ram=64 * GIB))
    assert on_cpu.weights == header.tensor_bytes
    assert on_gpu.weights == header.tensor_bytes + table


def test_experts_can_stay_in_host_memory(tmp_path: Path) -> None:
    header = read_header(write_tiny(tmp_path / "m.gguf", "moe"))
    machine = imagined_machine(vram=[GIB])
    experts = sum(t.nbytes for t in header.tensors if "_exps" in t.name)
    kept = estimate(make_loads(header, None, LoadOptions(experts_on_cpu=99)), machine)
    moved = estimate(make_loads(header, None, LoadOptions()), machine)
    on_host = [
        sum(p.bytes for p in plan.host.parts if p.kind == "weights") for plan in (kept, moved)
    ]
    assert on_host[0] - on_host[1] == experts


def test_unified_memory_is_one_budget() -> None:
    machine = imagined_machine(unified=64 * 10**9)
    assert machine.gpus[0].usable == metal_budget(64 * 10**9) == 48 * 10**9
    assert machine.gpus[0].unified
    assert machine.host.usable == machine.gpus[0].usable
    assert metal_budget(16 * 10**9) < 11 * 10**9


def test_unified_memory_counts_both_sides_together(headers: dict[str, Header]) -> None:
    loads = make_loads(headers["llama-3.1-8b"], None, LoadOptions())
    plan = estimate(loads, imagined_machine(unified=16 * 10**9))
    assert plan.required_host == plan.gpus[0].required + plan.host.required


def test_cards_are_found_by_the_names_people_use() -> None:
    assert find_card("RTX 4090").memory == 24 * GIB
    assert find_card("nvidia geforce rtx 3060").memory == 12 * GIB
    assert find_card("apple m4-max-64").unified
    with pytest.raises(UsageError) as caught:
        find_card("rtx-4900")
    assert "rtx-4090" in caught.value.hint
    assert all(name == name.lower() for name in CARDS)


def test_devices_of_llama_cpp_become_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "nvidia_processes", list)
    found = this_machine(
        [
            Native("CUDA0", "gpu", 20 * GIB, 24 * GIB, "RTX"),
            Native("CPU", "cpu", 10 * GIB, 64 * GIB),
        ]
    )
    assert [gpu.name for gpu in found.gpus] == ["CUDA0"]
    assert found.gpus[0].usable == 20 * GIB - CUDA_CONTEXT
    assert found.host.total > 0
    measured = this_machine([Native("CUDA0", "gpu", GIB, GIB)], reserves={"CUDA0": 7})
    assert measured.gpus[0].reserve == 7


def test_windows_keeps_a_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "nvidia_processes", list)
    monkeypatch.setattr("sys.platform", "win32")
    native = Native("CUDA0", "gpu", 16 * GIB, 16 * GIB)
    assert this_machine([native]).gpus[0].reserve == CUDA_CONTEXT + GIB


def test_container_limit_wins_over_the_machines_memory(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert devices._cgroup(tmp_path) == (1000, 400)
    (tmp_path / "memory.max").write_text("max\n")
    assert devices._cgroup(tmp_path) == (None, 0)
    assert devices._cgroup(tmp_path / "none") == (None, 0)


LOG = """\
load_tensors: layer   0 assigned to device CPU, is_swa = 0
load_tensors: layer   1 assigned to device CUDA0, is_swa = 0
load_tensors: layer   2 assigned to device CUDA0, is_swa = 0
model has unused tensor blk.9.a.weight (size = 123 bytes) -- ignoring
llama_kv_cache: size =    1.50 MiB (   512 cells,   2 layers,  1/1 seqs), K (f16):    0.75 MiB
llama_memory_recurrent:      CUDA0 RS buffer size =     0.25 MiB
sched_reserve:      CUDA0 compute buffer size =    12.50 MiB
sched_reserve:  CUDA_Host compute buffer size =     2.25 MiB
""".splitlines()


def test_figures_are_read_from_the_log() -> None:
    found = parse_log(LOG)
    assert found.layer_devices == {0: "CPU", 1: "CUDA0", 2: "CUDA0"}
    assert found.kv == int(1.5 * MIB)
    assert found.kv_cells == [512]
    assert found.recurrent == {"CUDA0": MIB // 4}
    assert found.compute == {"CUDA0": int(12.5 * MIB), "CUDA_Host": int(2.25 * MIB)}
    assert found.unused == 123


def test_probe_places_figures_where_the_log_says(tmp_path: Path) -> None:
    header = read_header(write_tiny(tmp_path / "a.gguf", "llama"))
    loads = make_loads(header, None, LoadOptions(n_ctx=512))
    machine = replace(
        imagined_machine(vram=[GIB]),
        gpus=(replace(imagined_machine(vram=[GIB]).gpus[0], name="CUDA0"),),
    )
    asked: list[ProbeRequest] = []

    def run(requests: object) -> list[ProbeLog]:
        asked.extend(requests)  # type: ignore[arg-type]
        return [ProbeLog(tuple(LOG), 0, True)]

    plan = probe(loads, [tmp_path / "a.gguf"], machine, run)
    assert (asked[0].n_ctx, asked[0].kv_type) == (512, "f16")
    on_gpu = {part.kind: part.bytes for part in plan.gpus[0].parts}
    on_host = {part.kind: part.bytes for part in plan.host.parts}
    # Layer 1 of 2 and the output are on the card: half the cache, all compute but the host's.
    assert on_gpu["kv"] == on_host["kv"] == int(0.75 * MIB)
    assert on_gpu["compute"] == int(12.5 * MIB)
    assert on_host["compute"] == int(2.25 * MIB)
    assert on_gpu["weights"] + on_host["weights"] == header.tensor_bytes
    assert plan.source == "probe"


def test_probe_that_failed_tells_the_reason(tmp_path: Path) -> None:
    header = read_header(write_tiny(tmp_path / "a.gguf", "llama"))
    loads = make_loads(header, None, LoadOptions())
    log = ProbeLog(("llama_model_load: error loading model: no such luck",), 0, False)
    with pytest.raises(EngineError, match="no such luck"):
        probe(loads, [tmp_path / "a.gguf"], imagined_machine(ram=GIB), lambda _: [log])


def test_what_does_not_fit_gets_changes_that_make_it_fit(headers: dict[str, Header]) -> None:
    machine = imagined_machine(vram=[24 * GIB])
    planner = estimator(machine)
    found = answer(pair(headers, n_ctx=32768), planner)
    assert not found.plan.fits
    assert 0 < found.max_ctx < 32768
    changes = {suggestion.change: suggestion for suggestion in found.suggestions}
    assert changes[f"--ctx {found.max_ctx}"].fits
    assert "--kv-type q8_0 --draft-kv-type q8_0" in changes
    assert changes["--draft ngram"].freed > changes["--draft-gpu-layers 0"].freed - GIB
    fitting = [suggestion.fits for suggestion in found.suggestions]
    assert fitting == sorted(fitting, reverse=True)


@pytest.mark.parametrize(
    ("target", "draft", "change", "is_half"),
    [
        ("f16", "f16", "--kv-type q8_0 --draft-kv-type q8_0", True),
        ("f16", "q8_0", "--kv-type q8_0", False),
        ("q8_0", "bf16", "--draft-kv-type q8_0", False),
        ("f32", "f16", "--kv-type q8_0 --draft-kv-type q8_0", False),
        ("f16", "", "--kv-type q8_0", True),
    ],
)
def test_cache_types_are_suggested_by_the_options_that_change_them(
    headers: dict[str, Header], target: str, draft: str, change: str, is_half: bool
) -> None:
    loads = pair(headers, kv_type=target, draft_kv_type=draft or "f16")
    loads = loads if draft else loads[:1]
    found = answer(loads, estimator(imagined_machine(vram=[64 * GIB])))
    offered = next(s for s in found.suggestions if "kv-type" in s.change)
    assert offered.change == change
    assert ("half" in offered.text) is is_half


def test_small_cache_types_are_not_made_larger(headers: dict[str, Header]) -> None:
    loads = pair(headers, kv_type="q4_0", draft_kv_type="q8_0")
    found = answer(loads, estimator(imagined_machine(vram=[64 * GIB])))
    assert not [s for s in found.suggestions if "kv-type" in s.change]


def test_hybrids_are_told_to_draft_less(headers: dict[str, Header]) -> None:
    loads = make_loads(headers["qwen3.5-27b"], None, LoadOptions(draft_max=16))
    found = answer(loads, estimator(imagined_machine(vram=[16 * GIB])))
    change = next(s for s in found.suggestions if s.change == "--draft-max 2")
    # Six rows less of 149.6 MiB each.
    assert change.freed > 6 * 149 * MIB


def test_smaller_file_of_the_same_repository_is_offered(headers: dict[str, Header]) -> None:
    small = SmallerFile("someone/Qwen3-32B-GGUF:IQ3_XS", 13 * GIB)
    found = answer(
        pair(headers, n_ctx=32768), estimator(imagined_machine(vram=[24 * GIB])), smaller=[small]
    )
    offered = next(s for s in found.suggestions if s.change == small.name)
    assert offered.freed > 4 * GIB
    assert "less" not in offered.text, "the line before it tells the saving"


def test_smaller_file_fits_when_the_plan_with_its_weights_does(headers: dict[str, Header]) -> None:
    # Its embeddings are tied: on the card and in host memory, but once in the file.
    loads = make_loads(headers["gemma-3-27b"], None, LoadOptions())
    whole = headers["gemma-3-27b"].tensor_bytes
    on_card = estimate(loads, imagined_machine(vram=[64 * GIB])).gpus[0].required
    files = [SmallerFile(f"a/b:{part}", whole * part // 100) for part in range(10, 100, 5)]
    for missing in (GIB, 3 * GIB):
        machine = imagined_machine(vram=[on_card - missing + CUDA_CONTEXT])
        enough = [file for file in files if file.size <= whole - missing]
        found = answer(loads, estimator(machine), smaller=files)
        offered = [s for s in found.suggestions if s.change.startswith("a/b:")]
        assert all(s.fits for s in offered)
        assert [s.change for s in offered] == [file.name for file in reversed(enough)][:3]
        assert all(s.freed >= missing for s in offered)


def test_of_files_none_of_which_fits_the_smallest_is_offered(headers: dict[str, Header]) -> None:
    files = [SmallerFile("a/b:Q4", 16 * GIB), SmallerFile("a/b:Q2", 12 * GIB)]
    found = answer(pair(headers), estimator(imagined_machine(vram=[4 * GIB])), smaller=files)
    offered = [s for s in found.suggestions if s.change.startswith("a/b:")]
    assert [(s.change, s.fits) for s in offered] == [("a/b:Q2", False)]


def test_long_passes_take_room_on_the_card_even_without_layers_there(
    headers: dict[str, Header],
) -> None:
    machine = imagined_machine(vram=[24 * GIB], ram=64 * GIB)

    def parts(**options: Any) -> dict[str, int]:
        loads = make_loads(
            headers["llama-3.1-8b"], None, LoadOptions(gpu_layers=0, n_ctx=8192, **options)
        )
        return {part.kind: part.bytes for part in estimate(loads, machine).gpus[0].parts}

    whole = estimate(make_loads(headers["llama-3.1-8b"], None, LoadOptions(n_ctx=8192)), machine)
    on_card = next(p.bytes for p in whole.gpus[0].parts if p.kind == "compute")
    largest = max(t.nbytes for t in headers["llama-3.1-8b"].tensors if t.name.startswith("blk."))
    found = parts()
    assert set(found) == {"compute"}
    # A card with all layers has the rows of logits too, and needs no copies of weights.
    assert largest < found["compute"] < on_card + largest + MIB
    # Long contexts copy more than the largest matrix: keys and values of a layer.
    longer = make_loads(headers["llama-3.1-8b"], None, LoadOptions(gpu_layers=0, n_ctx=131072))
    kv_of_a_layer = 131072 * 2 * 1024 * 2
    assert estimate(longer, machine).gpus[0].required > kv_of_a_layer > largest
    assert parts(n_ubatch=31) == {}


def test_no_layers_are_suggested_where_not_one_fits(headers: dict[str, Header]) -> None:
    loads = make_loads(headers["llama-3.1-8b"], None, LoadOptions())
    room = estimator(imagined_machine(vram=[24 * GIB], ram=64 * GIB))
    without = room([replace(loads[0], gpu_layers=0)]).gpus[0].required
    machine = imagined_machine(vram=[CUDA_CONTEXT + without + MIB], ram=64 * GIB)
    found = answer(loads, estimator(machine))
    assert found.max_gpu_layers == 0
    (change,) = [s for s in found.suggestions if s.change.startswith("--gpu-layers")]
    assert (change.change, change.fits) == ("--gpu-layers 0", True)
    # A smaller card has no room even for the passes.
    tiny = imagined_machine(vram=[CUDA_CONTEXT + MIB], ram=64 * GIB)
    assert answer(loads, estimator(tiny)).max_gpu_layers is None


def test_nothing_fits_in_nothing(headers: dict[str, Header]) -> None:
    found = answer(pair(headers), estimator(imagined_machine(vram=[GIB], ram=GIB)))
    assert found.max_ctx == 0
    assert not found.plan.fits
