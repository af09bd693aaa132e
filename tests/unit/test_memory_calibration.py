"""What a load took beyond its plan is remembered, unless it cannot be true."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.memory.calibration import Calibration
from localspec.units import GIB, MIB


def test_difference_is_remembered_by_device(tmp_path: Path) -> None:
    kept = Calibration(tmp_path / "cache" / "memory.json")
    assert kept.reserves() == {}
    learnt = kept.learn("CUDA0", planned=GIB, free_before=3 * GIB, free_after=2 * GIB - 300 * MIB)
    assert learnt == 300 * MIB
    kept.learn("CUDA1", planned=0, free_before=GIB, free_after=GIB - MIB)
    assert Calibration(tmp_path / "cache" / "memory.json").reserves() == {
        "CUDA0": 300 * MIB,
        "CUDA1": MIB,
    }


@pytest.mark.parametrize(("before", "after"), [(GIB, 2 * GIB), (30 * GIB, GIB)])
def test_nonsense_is_not_remembered(before: int, after: int, tmp_path: Path) -> None:
    kept = Calibration(tmp_path / "memory.json")
    assert kept.learn("CUDA0", planned=0, free_before=before, free_after=after) is None
    assert kept.reserves() == {}


@pytest.mark.parametrize("content", ["", "[1]", "not json", '{"CUDA0": "much", "CUDA1": -5}'])
def test_damaged_file_counts_as_empty(content: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text(content)
    assert Calibration(path).reserves() == {}
