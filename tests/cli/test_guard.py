"""The guard before loading: `auto` takes what fits, the rest is refused with a way out."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.engine.guard import learn_from_load, settings_that_fit
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.errors import BadModelFile, DoesNotFit, UsageError
from localspec.ggufmeta.header import read_header
from localspec.memory.calibration import Calibration
from localspec.memory.devices import CUDA_CONTEXT, Device, Machine, imagined_machine
from localspec.memory.fit import answer, at_ctx, estimator, max_gpu_layers
from localspec.memory.request import LoadOptions, make_loads
from tests.cli.conftest import Program
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_gguf import write_tiny

MIB = 1024 * 1024


def host(free: int) -> Machine:
    return Machine((), Device("CPU", 64 * 1024 * MIB, free), True)


def guard(
    settings: EngineSettings, machine: Machine, *, force: bool = False
) -> tuple[EngineSettings, str]:
    """The settings to load with, and what is told about them."""
    found = settings_that_fit(settings, machine, force=force)
    return found.settings, "\n".join(notice.message for notice in found.notices)


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a context of 8192."""
    path = tmp_path_factory.mktemp("guard") / "long.gguf"
    return write_tiny(path, "llama", n_ctx_train=8192)


def required(path: Path, n_ctx: int) -> int:
    loads = make_loads(read_header(path), None, LoadOptions(n_ctx=n_ctx))
    return estimator(host(1))(loads).required


def test_what_fits_is_left_alone(long_model: Path) -> None:
    settings = EngineSettings(ModelSettings(long_model), "m", flash_attn="on")
    assert guard(settings, host(1024 * MIB)) == (settings, "")


def test_flash_attention_is_off_where_the_processor_is_faster_without(
    long_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    asked = EngineSettings(ModelSettings(long_model), "m")
    assert guard(asked, host(1024 * MIB))[0].flash_attn == "off"
    assert guard(asked, imagined_machine(vram=[4096 * MIB]))[0].flash_attn == "auto"
    assert guard(replace(asked, flash_attn="on"), host(1024 * MIB))[0].flash_attn == "on"
    # Memory goes before speed.
    tight, told = guard(asked, host(required(long_model, 8192)))
    assert (tight.flash_attn, tight.n_ctx, told) == ("auto", 0, "")


def test_an_automatic_context_shrinks_to_what_fits(long_model: Path) -> None:
    machine = host(required(long_model, 4096) + 1)
    settings, told = guard(EngineSettings(ModelSettings(long_model), "m"), machine)
    assert settings.n_ctx == 4096
    assert "a context of 4096 tokens fits" in told


def test_a_context_that_was_asked_for_is_refused_with_the_best_change(long_model: Path) -> None:
    machine = host(required(long_model, 4096) + 1)
    settings = EngineSettings(ModelSettings(long_model), "m", n_ctx=8192)
    with pytest.raises(DoesNotFit) as caught:
        guard(settings, machine)
    assert caught.value.message.startswith("m with 8192 tokens of context needs ")
    assert " fits: " in caught.value.hint
    fields = caught.value.fields
    assert fields["shortfall"] == fields["required"] - fields["free"] > 0


def test_force_starts_nevertheless_with_a_warning(long_model: Path) -> None:
    settings = EngineSettings(ModelSettings(long_model), "m", n_ctx=8192)
    kept, told = guard(settings, host(MIB), force=True)
    assert kept == settings
    assert told.startswith("m with 8192 tokens of context needs ")


def test_layers_that_do_not_fit_stay_on_the_cpu(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "deep.gguf", "llama", n_layer=8, n_ctx_train=2048)
    loads = make_loads(read_header(path), None, LoadOptions(n_ctx=2048))
    full = estimator(imagined_machine(vram=[1024 * MIB]))(loads).gpus[0].required
    machine = imagined_machine(vram=[CUDA_CONTEXT + full * 2 // 3])
    settings, told = guard(EngineSettings(ModelSettings(path), "m", n_ctx=2048), machine)
    assert settings.target.gpu_layers == max_gpu_layers(loads, estimator(machine))
    assert settings.target.gpu_layers
    assert "of 9 layers fit on the GPU" in told


def test_experts_leave_the_card_before_layers_do(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "moe.gguf", "moe", n_layer=8, n_ctx_train=2048)
    loads = make_loads(read_header(path), None, LoadOptions(n_ctx=2048))
    full = estimator(imagined_machine(vram=[1024 * MIB]))(loads).gpus[0].required
    without = [replace(loads[0], experts_on_cpu=8)]
    least = estimator(imagined_machine(vram=[1024 * MIB]))(without).gpus[0].required
    machine = imagined_machine(vram=[CUDA_CONTEXT + (full + least) // 2])
    settings, told = guard(EngineSettings(ModelSettings(path), "m", n_ctx=2048), machine)
    kept = settings.target.experts_on_cpu
    assert settings.target.gpu_layers is None
    assert 0 < kept < 8
    assert f"the experts of {kept} of 8 layers stay in host memory" in told
    assert estimator(machine)([replace(loads[0], experts_on_cpu=kept)]).fits
    assert not estimator(machine)([replace(loads[0], experts_on_cpu=kept - 1)]).fits
    asked = answer(loads, estimator(machine))
    assert f"--n-cpu-moe {kept}" in [change.change for change in asked.suggestions if change.fits]


def test_more_shares_than_cards_are_refused(long_model: Path) -> None:
    settings = EngineSettings(ModelSettings(long_model, tensor_split=(2.0, 1.0)), "m")
    with pytest.raises(UsageError, match="--tensor-split 2,1 has 2 shares, the machine has 1 card"):
        guard(settings, imagined_machine(vram=[1024 * MIB]))


def test_layers_leave_the_card_at_the_least_context_where_neither_alone_is_enough(
    tmp_path: Path,
) -> None:
    path = write_tiny(tmp_path / "deep.gguf", "llama", n_layer=8, n_ctx_train=8192)
    least = make_loads(read_header(path), None, LoadOptions(n_ctx=2048))
    full = estimator(imagined_machine(vram=[1024 * MIB]))(least).gpus[0].required
    vram = CUDA_CONTEXT + full * 2 // 3
    roomy = imagined_machine(vram=[vram], ram=1024 * MIB)
    layers = max_gpu_layers(least, estimator(roomy))
    assert layers
    on_host = estimator(roomy)([replace(least[0], gpu_layers=layers)]).host.required
    machine = replace(roomy, host=replace(roomy.host, free=on_host))
    assert max_gpu_layers(at_ctx(least, 8192), estimator(machine)) is None
    assert not estimator(machine)(least).fits
    settings, told = guard(EngineSettings(ModelSettings(path), "m"), machine)
    assert (settings.n_ctx, settings.target.gpu_layers) == (2048, layers)
    assert f"only {layers} of 9 layers fit on the GPU with a context of 2048 tokens" in told


def test_the_draft_counts(long_model: Path, tmp_path: Path) -> None:
    machine = host(required(long_model, 8192) + 1)
    alone = EngineSettings(ModelSettings(long_model), "m", n_ctx=8192)
    assert guard(alone, machine)[0] == alone
    pair = EngineSettings(
        ModelSettings(long_model), "m", draft=ModelSettings(long_model), n_ctx=8192
    )
    with pytest.raises(DoesNotFit):
        guard(pair, machine)


def test_what_a_load_takes_beyond_its_plan_is_remembered_and_kept_free(
    tmp_path: Path, long_model: Path
) -> None:
    """A CUDA context lies outside all buffers; no program knows it before it was measured."""
    kept = Calibration(tmp_path / "memory.json")
    asked = EngineSettings(ModelSettings(long_model), "m", calibration=kept.path)
    settings, _ = guard(asked, imagined_machine(vram=[8 * 1024 * MIB]))
    ((device, planned),) = settings.planned
    assert device == "GPU0"
    assert planned > 0
    free = 8 * 1024 * MIB
    beyond = learn_from_load(settings, {device: free}, {device: free - planned - 300 * MIB})
    assert beyond == {device: 300 * MIB} == kept.reserves()
    assert learn_from_load(settings, {}, {}) == {}, "a device that is not there teaches nothing"
    assert learn_from_load(asked, {device: free}, {device: 0}) == {}, "nor does a load unplanned"


def test_a_bad_file_is_told_before_it_is_planned(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_text("no model", encoding="utf-8")
    with pytest.raises(BadModelFile):
        guard(EngineSettings(ModelSettings(path), "m"), host(MIB))


def test_bench_refuses_with_code_4_and_starts_nothing(
    program: Program, fake_engine: type[FakeEngine], tiny: Path
) -> None:
    done = program("bench", tiny, "--ctx", "1000000000")
    assert (done.code, done.out) == (4, "")
    assert "--force starts it nevertheless" in done.err
    assert fake_engine.started == []


def test_run_refuses_with_code_4_and_starts_nothing(
    program: Program, fake_engine: type[FakeEngine], tiny: Path
) -> None:
    done = program("run", tiny, "hi", "--ctx", "1000000000")
    assert (done.code, done.out) == (4, "")
    assert fake_engine.started == []
    assert program("run", tiny, "hi", "--ctx", "1000000000", "--force").code == 0
