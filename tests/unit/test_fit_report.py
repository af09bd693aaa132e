"""What `fit` shows: lines, table and JSON agree with the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.cli.fit_answers import Answer
from localspec.cli.fit_report import document, show, show_table
from localspec.cli.output import Output
from localspec.ggufmeta.header import Header, read_header
from localspec.memory.devices import CUDA_CONTEXT, Machine, imagined_machine
from localspec.memory.fit import Fit, Suggestion, answer, estimator
from localspec.memory.plan import estimate
from localspec.memory.request import LoadOptions, make_loads
from localspec.units import GIB, MIB, format_bytes
from tests.support.ghosts import write_ghost_of


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    folder = tmp_path_factory.mktemp("report")
    return read_header(write_ghost_of("gemma-3-27b", folder / "gemma"))


def _answer(header: Header, machine: Machine) -> Answer:
    loads = make_loads(header, None, LoadOptions())
    return Answer("gemma", answer(loads, estimator(machine)), machine)


def _table(found: Answer, capsys: pytest.CaptureFixture[str]) -> str:
    show_table(Output(), [found])
    return capsys.readouterr().out


@pytest.mark.parametrize("unified", [16 * GIB, 23 * GIB, 25 * GIB, 64 * GIB])
def test_shared_memory_has_the_same_headroom_on_every_device(header: Header, unified: int) -> None:
    machine = imagined_machine(unified=unified)
    plan = estimate(make_loads(header, None, LoadOptions()), machine)
    left = machine.host.usable - plan.required
    assert {fit.headroom for fit in (*plan.gpus, plan.host)} == {left}
    assert plan.shortfall == max(0, -left)
    assert plan.fits is all(fit.fits for fit in (*plan.gpus, plan.host)) is (left >= 0)
    shown = document(_answer(header, machine))
    assert shown["devices"][0]["headroom"] == shown["host"]["headroom"] == left


def test_memory_missing_on_the_host_counts_in_the_table(
    header: Header, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _answer(header, imagined_machine(vram=[64 * GIB], ram=GIB))
    assert not found.fit.plan.fits
    missing = found.fit.plan.host.headroom
    assert missing < 0 < found.fit.plan.gpus[0].headroom
    assert format_bytes(missing) in _table(found, capsys)


def test_best_change_of_the_table_is_one_that_makes_it_fit(
    header: Header, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = imagined_machine(vram=[GIB + CUDA_CONTEXT])
    plan = _answer(header, machine).fit.plan
    frees = Suggestion("--ubatch 128", "slower", 1, 1, fits=False)
    helps = Suggestion("--ctx 512", "shorter", 1, 1, fits=True)
    shown = _table(Answer("a", Fit(plan, 0, 0, (frees, helps)), machine), capsys)
    assert "--ctx 512" in shown
    shown = _table(Answer("a", Fit(plan, 0, 0, (frees,)), machine), capsys)
    assert "--ubatch" not in shown
    assert "–" in shown


@pytest.mark.parametrize(
    ("vram", "ram", "layers", "text"),
    [
        (64 * GIB, 64 * GIB, 63, "all 63 layers fit on the GPU"),
        (CUDA_CONTEXT + 512 * MIB, 64 * GIB, 0, "no layer would fit on the GPU"),
        # Without layers there too, llama.cpp computes long passes on the card.
        (CUDA_CONTEXT, 64 * GIB, None, "no number of layers on the GPU fits"),
        (CUDA_CONTEXT, GIB, None, "no number of layers on the GPU fits"),
    ],
)
def test_layers_that_fit_tell_none_from_no_answer(
    header: Header,
    capsys: pytest.CaptureFixture[str],
    vram: int,
    ram: int,
    layers: int | None,
    text: str,
) -> None:
    found = _answer(header, imagined_machine(vram=[vram], ram=ram))
    assert found.fit.max_gpu_layers == layers
    show(Output(), found)
    assert text in capsys.readouterr().out


def test_most_layers_are_found_where_host_memory_is_short_too(
    header: Header, capsys: pytest.CaptureFixture[str]
) -> None:
    # With few layers on the card the host has too little, with all of them the card has.
    machine = imagined_machine(vram=[12 * GIB], ram=10 * GIB)
    found = _answer(header, machine)
    layers = found.fit.max_gpu_layers
    assert layers is not None
    assert 0 < layers < 63
    loads = make_loads(header, None, LoadOptions(gpu_layers=layers))
    assert estimate(loads, machine).fits
    assert not estimate([replace(loads[0], gpu_layers=layers + 1)], machine).fits
    assert not estimate([replace(loads[0], gpu_layers=1)], machine).fits
    show(Output(), found)
    assert f"at most {layers} of 63 layers would fit" in capsys.readouterr().out
