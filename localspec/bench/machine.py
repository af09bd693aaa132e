"""Which machine a result belongs to: figures measured on another one say nothing here."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides how fast a model runs."""

    cpu: str
    cores: int
    """Physical cores."""
    memory: int
    """Bytes of RAM."""
    system: str
    """Operating system and processor family: `Linux x86_64`."""
    devices: tuple[str, ...] = ()
    """Names of the GPUs."""

    @property
    def key(self) -> str:
        """Short and stable; a memory module that reports a little more or less keeps it."""
        gibibytes = round(self.memory / 2**30)
        named = "|".join((self.cpu, str(self.cores), str(gibibytes), self.system, *self.devices))
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "devices": list(self.devices), "key": self.key}

    def __str__(self) -> str:
        parts = [*self.devices, f"{self.cpu}, {self.cores} cores", f"{self.memory / 2**30:.0f} GiB"]
        return " · ".join(parts)


def this_machine(devices: tuple[str, ...] | None = None) -> Machine:
    """The machine that this process runs on.

    devices: names of its GPUs; None asks the NVIDIA driver, where there is one.
    """
    import psutil

    return Machine(
        cpu=_cpu_name(),
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        memory=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.machine()}",
        devices=_nvidia_names() if devices is None else devices,
    )


def _cpu_name() -> str:
    if sys.platform == "linux":
        try:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            lines = ""
        for line in lines.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    if sys.platform == "darwin":
        try:
            return subprocess.run(
                ["sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True,
                text=True,
                check=True,
                timeout=5,
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return platform.processor() or platform.machine()


def _nvidia_names() -> tuple[str, ...]:
    if sys.platform == "darwin":
        return ()
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        # No driver is the usual case, not a failure.
        return ()
    try:
        count = pynvml.nvmlDeviceGetCount()
        names = [
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(count)
        ]
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()
