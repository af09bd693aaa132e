"""`fit` says of which models its estimate is proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.cli.fit_answers import unproved
from localspec.ggufmeta.header import read_header
from localspec.memory.devices import imagined_machine, this_machine
from localspec.memory.held import HELD
from localspec.memory.request import LoadOptions, make_loads
from localspec.units import GIB
from tests.support.gguf_layouts import LAYOUTS
from tests.support.tiny_gguf import write_tiny


def test_the_list_names_what_the_tests_lay_out() -> None:
    assert set(LAYOUTS) - {"bert"} == HELD


@pytest.mark.parametrize("name", ["llama", "deepseek4"])
def test_other_architectures_get_a_note(name: str, tmp_path: Path) -> None:
    header = read_header(write_tiny(tmp_path / "a.gguf", "llama"))
    loads = make_loads(header, header, LoadOptions())
    loads = tuple(
        replace(load, architecture=replace(load.architecture, name=name)) for load in loads
    )
    notes = unproved(loads, this_machine(()))
    assert len(notes) == (name not in HELD)
    assert all(f"{name} models was never held" in n and "--source probe" in n for n in notes)
    # A probe plans for the devices that are here, not for imagined ones.
    elsewhere = unproved(loads, imagined_machine(vram=[GIB]))
    assert not any("--source probe" in note for note in elsewhere)
