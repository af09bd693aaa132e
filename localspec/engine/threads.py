"""How many threads suit this machine: the cores that do the work, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_HYBRID_CORES = Path("/sys/devices/cpu_core/cpus")
_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def default_threads() -> int:
    """Physical performance cores this process may use, one left to the rest above four."""
    cores = min(_performance_cores(), _allowed_cores())
    return cores - 1 if cores > 4 else max(1, cores)


def _performance_cores() -> int:
    if sys.platform == "darwin":
        found = _sysctl("hw.perflevel0.physicalcpu")
        if found:
            return found
    if _HYBRID_CORES.is_file():
        # Intel hybrid: the list names logical CPUs, two for each performance core.
        return max(1, _count_cpu_list(_HYBRID_CORES.read_text()) // 2)
    import psutil

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def _allowed_cores() -> int:
    """What affinity and a container's quota leave."""
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = _CGROUP_QUOTA.read_text().split()
        if quota != "max":
            allowed = min(allowed, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no cgroup v2 here
    return allowed


def _count_cpu_list(text: str) -> int:
    """CPUs named by the kernel's list format: `0-7,16` are nine."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _sysctl(name: str) -> int:
    try:
        answer = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=2, check=True
        )
        return int(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
