"""Everything that will be loaded, by device, model and kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localspec.memory import flash_attention
from localspec.memory.cache import kv_bytes, nextn_kv_bytes, recurrent_bytes
from localspec.memory.compute import compute_bytes, nextn_compute_bytes, output_bytes
from localspec.memory.devices import Device, Machine
from localspec.memory.placement import Placement, place
from localspec.memory.request import ModelLoad
from localspec.memory.weights import weights

KINDS = ("weights", "kv", "recurrent", "compute", "output")


@dataclass(frozen=True, slots=True)
class Part:
    """One block of memory."""

    model: str
    """`target`, `draft`, `mtp` (a second context on the target's weights) or `projector`."""
    kind: str
    """One of KINDS."""
    bytes: int


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """One device with what goes into it."""

    device: Device
    parts: tuple[Part, ...]
    shared_headroom: int | None = None
    """Bytes left over of the memory that it shares with other devices, whatever they take of it
    counted too; None when it shares with none."""

    @property
    def required(self) -> int:
        """Bytes this plan needs on the device, all models together."""
        return sum(part.bytes for part in self.parts)

    @property
    def headroom(self) -> int:
        """Bytes left over when everything is loaded; negative is what is missing."""
        own = self.device.usable - self.required
        return own if self.shared_headroom is None else min(own, self.shared_headroom)

    @property
    def fits(self) -> bool:
        return self.headroom >= 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes where."""

    loads: tuple[ModelLoad, ...]
    placements: tuple[Placement, ...]
    gpus: tuple[DeviceFit, ...]
    host: DeviceFit
    source: str
    """`estimate` or `probe`."""

    @property
    def fits(self) -> bool:
        return self.shortfall == 0

    @property
    def shortfall(self) -> int:
        """Bytes that are missing, all devices together; 0 when everything fits."""
        fits = (*self.gpus, self.host)
        alone = sum(max(0, -fit.headroom) for fit in fits if fit.shared_headroom is None)
        # What is missing of shared memory is missing once, on whichever device it shows.
        shared = [-fit.headroom for fit in fits if fit.shared_headroom is not None]
        return alone + max([0, *shared])

    @property
    def required(self) -> int:
        """Bytes on all devices together."""
        return sum(fit.required for fit in (*self.gpus, self.host))

    @property
    def required_host(self) -> int:
        """Bytes of host memory; unified GPUs take theirs from the same."""
        shared = sum(fit.required for fit in self.gpus if fit.device.unified)
        return self.host.required + (shared if self.host.device.unified else 0)

    @property
    def n_ctx(self) -> int:
        return self.loads[0].n_ctx

    @property
    def weights(self) -> int:
        """Bytes of weights, all models and devices together."""
        return sum(
            part.bytes
            for fit in (*self.gpus, self.host)
            for part in fit.parts
            if part.kind == "weights"
        )


def estimate(loads: Sequence[ModelLoad], machine: Machine, projector: int = 0) -> Plan:
    """The plan by our own formulas, from headers alone.

    projector: bytes of a multimodal projector's file that is loaded with the target. The plan's
    loads tell what became of flash attention where it was left open.
    """
    if flash_attention.is_open(loads):
        without = flash_attention.decided(loads, on=False)
        if flash_attention.is_slower(without, machine):
            plan = estimate(without, machine, projector)
            if plan.fits:
                return plan
        loads = flash_attention.decided(loads, on=True)
    placements, parts = [], []
    for load in loads:
        placement = place(load, [gpu.usable for gpu in machine.gpus])
        placements.append(placement)
        outputs = [0] * len(machine.devices)
        outputs[-1] = output_bytes(load)
        found = {
            "weights": weights(load, placement).by_device,
            "kv": kv_bytes(load, placement),
            "recurrent": recurrent_bytes(load, placement),
            "compute": compute_bytes(load, placement),
            "output": outputs,
        }
        parts += [
            (index, Part(load.role, kind, size))
            for kind in KINDS
            for index, size in enumerate(found[kind])
        ]
        if load.with_nextn and load.architecture.n_nextn:
            second = {
                "kv": nextn_kv_bytes(load, placement),
                "compute": nextn_compute_bytes(load, placement),
                "output": outputs,
            }
            parts += [
                (index, Part("mtp", kind, size))
                for kind, sizes in second.items()
                for index, size in enumerate(sizes)
            ]
    if projector:
        parts.append((0, Part("projector", "weights", projector)))
    return assemble(loads, placements, machine, parts, "estimate")


def assemble(
    loads: Iterable[ModelLoad],
    placements: Iterable[Placement],
    machine: Machine,
    parts: Iterable[tuple[int, Part]],
    source: str,
) -> Plan:
    """A plan of parts, each with the index of its device; empty parts are left out."""
    by_device: list[list[Part]] = [[] for _ in machine.devices]
    for index, part in parts:
        if part.bytes:
            by_device[index].append(part)
    devices = list(zip(machine.devices, by_device, strict=True))
    shared: int | None = None
    if machine.host.unified:
        taken = sum(p.bytes for device, found in devices if device.unified for p in found)
        shared = machine.host.usable - taken
    fits = [
        DeviceFit(device, tuple(found), shared if device.unified else None)
        for device, found in devices
    ]
    return Plan(tuple(loads), tuple(placements), tuple(fits[:-1]), fits[-1], source)
