"""A glance at memory for `list` and `pull`: quick, without starting llama.cpp.

`localspec fit` is the careful answer; this one takes the cards from their driver, and counts all
of a pair as if it lay in one place.
"""

from __future__ import annotations

import contextlib
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import DownloadError, LocalspecError
from localspec.paths import Paths
from localspec.whole_file import write_whole

if TYPE_CHECKING:
    from localspec.ggufmeta.header import Header
    from localspec.hub.resolve import ResolvedPair
    from localspec.memory.devices import Machine

_BOUNDLESS = 1 << 50


def quick_machine() -> Machine:
    """NVIDIA cards by their driver, Apple's shared memory by its size, else the host alone."""
    from localspec.memory.cards import metal_budget
    from localspec.memory.devices import Device, Machine, this_machine

    host = this_machine(()).host
    if sys.platform == "darwin" and platform.machine() == "arm64":
        budget = min(metal_budget(host.total), host.free)
        return Machine((Device("MTL0", host.total, budget, 0, True),), host)
    gpus = tuple(
        Device(f"CUDA{index}", total, free, 0)
        for index, (total, free) in enumerate(_nvidia_memory())
    )
    return Machine(gpus, host)


def usable_memory(machine: Machine) -> int:
    """Bytes that models may take: of all cards together, of the host where there is none."""
    if machine.gpus:
        return sum(gpu.usable for gpu in machine.gpus)
    return machine.host.usable


def required_bytes(target: Header, draft: Header | None) -> int:
    """Bytes of weights, caches and buffers with the usual options, by estimate.

    Raises BadModelFile.
    """
    from localspec.memory.devices import imagined_machine
    from localspec.memory.plan import estimate
    from localspec.memory.request import LoadOptions, make_loads

    machine = imagined_machine(unified=_BOUNDLESS)
    return estimate(make_loads(target, draft, LoadOptions()), machine).required


def weight_budget(
    resolved: ResolvedPair, paths: Paths, machine: Machine | None = None
) -> int | None:
    """Bytes that the target's weights may take on `machine`, when `resolved` leaves the choice
    of a quantisation to us; None when it does not, or when nothing is known.

    machine: None is this one.
    The header of one quantisation tells what all of them need besides their weights.
    """
    from localspec.catalog.entries import HubSource
    from localspec.hub.client import HubClient
    from localspec.hub.failures import RetryPolicy
    from localspec.hub.remote_header import fetch_header
    from localspec.hub.resolve import Missing

    target = resolved.target
    if not isinstance(target, Missing) or not isinstance(target.source, HubSource):
        return None
    if target.source.filename is not None or target.source.quant is not None:
        return None
    try:
        client = HubClient(RetryPolicy(attempts=2, patient_attempts=2))
        header = fetch_header(target.source, client, paths.cache).header
        besides = required_bytes(header, None) - header.tensor_bytes
    except DownloadError:
        # The plan asks the same Hub next and tells it better.
        return None
    except LocalspecError:
        besides = 0
    return max(0, usable_memory(machine or quick_machine()) - max(0, besides))


class RequiredMemory:
    """What pairs on this machine require, remembered by path, size and time of change."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.cache / "required.json"
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            self._known: dict[str, int | None] = data if isinstance(data, dict) else {}
        except (OSError, ValueError):
            self._known = {}
        self._changed = False

    def of(self, files: Sequence[Path]) -> int | None:
        """Bytes for a target, and a draft if there are two; None for what cannot be loaded."""
        from localspec.ggufmeta.header import read_header

        try:
            stats = [(path, path.stat()) for path in files]
        except OSError:
            return None
        key = "|".join(f"{path}:{stat.st_size}:{stat.st_mtime_ns}" for path, stat in stats)
        if key not in self._known:
            self._changed = True
            try:
                headers = [read_header(path) for path in files]
                self._known[key] = required_bytes(headers[0], headers[1] if headers[1:] else None)
            except LocalspecError:
                self._known[key] = None
        found = self._known[key]
        return found if isinstance(found, int) else None

    def save(self) -> None:
        """Write what was learned; a folder that cannot be written costs only time."""
        if not self._changed:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(self._known))


def _nvidia_memory() -> list[tuple[int, int]]:
    """Total and free bytes of each NVIDIA card; none without driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
            found.append((int(memory.total), int(memory.free)))
        return found
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()
