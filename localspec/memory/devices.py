"""The devices a model can go to: those that are here, or imagined ones."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from localspec.memory.cards import Card, metal_budget, windows_reserve
from localspec.units import GIB, MIB

CUDA_CONTEXT = 400 * MIB
"""What a CUDA process takes outside all buffers, before anybody has measured it here."""


class NativeDevice(Protocol):
    """A device as the loaded llama.cpp reports it (`localspec.llama.capabilities.Device`)."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def free(self) -> int: ...
    @property
    def total(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Device:
    """Memory that weights, caches and buffers go into."""

    name: str
    """`CUDA0`, `MTL0`, `CPU`."""
    total: int
    free: int
    """Bytes free now, before any reserve."""
    reserve: int = 0
    """Bytes to keep free: the driver's own and what Windows needs."""
    unified: bool = False
    """Shares the host's memory."""
    description: str = ""

    @property
    def usable(self) -> int:
        """Bytes that models may take."""
        return max(0, self.free - self.reserve)


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs and the host's memory."""

    gpus: tuple[Device, ...]
    host: Device
    imagined: bool = False

    @property
    def devices(self) -> tuple[Device, ...]:
        """GPUs first, the host last: the order of every placement."""
        return (*self.gpus, self.host)


def imagined_machine(
    *,
    vram: Sequence[int] = (),
    unified: int | None = None,
    ram: int | None = None,
    card: Card | None = None,
) -> Machine:
    """A machine that is not here: cards of `vram` bytes, or `unified` bytes of shared memory.

    ram: of the host; else twice the cards' memory and at least 16 GiB.
    """
    if card is not None:
        vram, unified = ((), card.memory) if card.unified else ((card.memory,), None)
    name = card.name if card is not None else ""
    if unified is not None:
        budget = metal_budget(unified)
        gpu = Device("GPU0", unified, budget, 0, True, name or "unified memory")
        return Machine((gpu,), Device("CPU", unified, budget, 0, True, "the same memory"), True)
    gpus = tuple(
        Device(f"GPU{index}", size, size, CUDA_CONTEXT, False, name)
        for index, size in enumerate(vram)
    )
    memory = ram if ram is not None else max(16 * GIB, 2 * sum(vram))
    return Machine(gpus, Device("CPU", memory, memory * 9 // 10, 0, False, "host memory"), True)


def this_machine(
    native: Sequence[NativeDevice], *, reserves: dict[str, int] | None = None
) -> Machine:
    """The devices llama.cpp reports, and the host's memory.

    reserves: bytes to keep free by device, measured on earlier loads.
    """
    known = reserves or {}
    gpus: list[Device] = []
    own_process = _nvidia_own_use()
    for device in native:
        if device.kind not in ("gpu", "igpu") or device.total <= 0:
            continue
        unified = device.kind == "igpu" or device.name.startswith(("MTL", "Metal"))
        total = device.total
        if unified:
            total = min(total, _wired_limit() or total)
        reserve = known.get(device.name)
        if reserve is None:
            reserve = CUDA_CONTEXT if device.name.startswith("CUDA") else 0
        if sys.platform == "win32" and not unified:
            reserve += windows_reserve(total)
        if own_process.get(device.name):
            # The context is already paid for by the process that asks.
            reserve = max(0, reserve - own_process[device.name])
        free = min(device.free, total)
        gpus.append(Device(device.name, total, free, reserve, unified, device.description))
    return Machine(tuple(gpus), _host(shared=any(gpu.unified for gpu in gpus)))


def _host(*, shared: bool) -> Device:
    import psutil

    memory = psutil.virtual_memory()
    total, free = int(memory.total), int(memory.available)
    limit, used = _cgroup()
    if limit is not None and limit < total:
        total, free = limit, min(free, max(0, limit - used))
    return Device("CPU", total, free, 0, shared, "host memory")


def _cgroup(root: Path = Path("/sys/fs/cgroup")) -> tuple[int | None, int]:
    """The container's memory limit and use, cgroup v2 or v1; None without a limit."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            text = (root / limit_name).read_text().strip()
            if text == "max":
                return None, 0
            return int(text), int((root / used_name).read_text())
    return None, 0


def _wired_limit() -> int | None:
    """macOS: the limit set with `sysctl iogpu.wired_limit_mb`; None where there is none."""
    if sys.platform != "darwin":
        return None
    import subprocess

    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        found = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
        megabytes = int(found.stdout.strip())
        return megabytes * MIB if megabytes > 0 else None
    return None


def _nvidia_own_use() -> dict[str, int]:
    """Bytes this very process holds on each CUDA device; empty where NVML does not say."""
    import os

    return {f"CUDA{i}": used.get(os.getpid(), 0) for i, used in enumerate(nvidia_processes())}


def nvidia_processes() -> list[dict[int, int]]:
    """Bytes by process id, for each NVIDIA card; empty without cards or driver."""
    try:
        import pynvml
    except ImportError:
        return []
    nvml: Any = pynvml
    found: list[dict[int, int]] = []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            used: dict[int, int] = {}
            with contextlib.suppress(nvml.NVMLError):
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    used[process.pid] = int(process.usedGpuMemory or 0)
            found.append(used)
    except nvml.NVMLError:
        return found
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()
    return found
