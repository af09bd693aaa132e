"""Memory beside its plan."""

from __future__ import annotations

import os
from pathlib import Path

from localspec.bench.memory import MemoryUse, memory_use, memory_words
from localspec.engine.settings import EngineSettings, ModelSettings

MIB = 1 << 20
SETTINGS = EngineSettings(
    ModelSettings(Path("m.gguf")),
    planned=(("CUDA0", 100 * MIB), ("CUDA1", 50 * MIB)),
    planned_host=30 * MIB,
)


def test_what_a_gpu_took_is_its_plan_and_what_came_beyond() -> None:
    used = memory_use(SETTINGS, {"CUDA0": 7 * MIB}, None)
    assert used == (
        MemoryUse("CUDA0", 100 * MIB, 107 * MIB),
        MemoryUse("CUDA1", 50 * MIB, None),
        MemoryUse("host", 30 * MIB, None),
    )


def test_the_host_is_what_the_process_has_in_memory() -> None:
    used = memory_use(SETTINGS, {}, os.getpid())[-1]
    assert used.taken is not None
    assert used.taken > MIB
    assert "30" in memory_words(used)
    assert "taken" in memory_words(used)


def test_without_a_plan_nothing_is_told() -> None:
    assert memory_use(EngineSettings(ModelSettings(Path("m.gguf"))), {}, os.getpid()) == ()
