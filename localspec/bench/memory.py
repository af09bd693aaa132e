"""What the loaded models take of each memory, beside what was planned for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from localspec.engine.settings import EngineSettings
from localspec.units import format_bytes

HOST = "host"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One memory: a GPU's by its name, or the host's."""

    device: str
    planned: int
    """Bytes."""
    taken: int | None
    """Bytes; None when nobody knows. On the host that of the engine's whole process, the
    interpreter and libraries included, of which the plan knows nothing."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def memory_use(
    settings: EngineSettings, beyond_plan: Mapping[str, int], pid: int | None
) -> tuple[MemoryUse, ...]:
    """What the engine takes now.

    beyond_plan: bytes that the load took on each GPU beyond its plan, where that was measured.
    pid: the engine's process. Without a plan there is nothing to compare with.
    """
    used = [
        MemoryUse(name, planned, planned + beyond_plan[name] if name in beyond_plan else None)
        for name, planned in settings.planned
    ]
    if settings.planned_host:
        used.append(MemoryUse(HOST, settings.planned_host, _resident(pid)))
    return tuple(used)


def memory_words(use: MemoryUse) -> str:
    """One line on one memory."""
    text = f"memory of {use.device}: {format_bytes(use.planned)} planned"
    if use.taken is None:
        return text
    own = " by the engine's process, libraries included" if use.device == HOST else ""
    return f"{text}, {format_bytes(use.taken)} taken{own}"


def _resident(pid: int | None) -> int | None:
    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
