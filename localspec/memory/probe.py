"""What llama.cpp itself says it would allocate, read from its log.

A ghost file (`ggufmeta.ghost`) is loaded with `no_alloc` by whoever may import llama.cpp; this
module asks and understands the answer. Weights come from the header and the layers' devices,
because llama.cpp reports 0.00 MiB for buffers it does not allocate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localspec.errors import EngineError
from localspec.memory import flash_attention
from localspec.memory.cache import layer_kv_bytes
from localspec.memory.compute import output_bytes
from localspec.memory.devices import Machine
from localspec.memory.placement import Placement
from localspec.memory.plan import KINDS, Part, Plan, assemble, estimate
from localspec.memory.request import ModelLoad
from localspec.memory.weights import weights
from localspec.units import MIB


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One load of a ghost; plain data that crosses processes."""

    path: Path
    n_ctx: int
    n_batch: int
    n_ubatch: int
    n_outputs: int
    n_seq: int
    kv_type: str
    flash_attn: bool
    gpu_layers: int | None
    rollback_rows: int
    tensor_split: tuple[float, ...] = ()
    experts_on_cpu: int = 0
    nextn: bool = False
    """The second context of a model with next-token-prediction blocks."""


@dataclass(frozen=True, slots=True)
class ProbeLog:
    """The native log of one load."""

    lines: tuple[str, ...]
    tensor_bytes: int
    """llama_model_size: bytes of all tensors of the file."""
    ok: bool
    """Whether model and context were created."""


ProbeRunner = Callable[[Sequence[ProbeRequest]], Sequence[ProbeLog]]
"""Runs loads somewhere safe (a child process). Raises EngineError or EngineCrashed."""


@dataclass(slots=True)
class ProbeFigures:
    """Bytes as the log has them; it writes MiB with two decimals."""

    layer_devices: dict[int, str] = field(default_factory=dict)
    kv: int = 0
    kv_cells: list[int] = field(default_factory=list)
    """Cells of each cache in the order of creation."""
    recurrent: dict[str, int] = field(default_factory=dict)
    compute: dict[str, int] = field(default_factory=dict)
    unused: int = 0
    """Bytes of tensors the model does not use."""


_LAYER = re.compile(r"load_tensors: layer +(\d+) assigned to device ([^,\s]+)")
_KV = re.compile(r"llama_kv_cache\w*: size = +([\d.]+) MiB \( *(\d+) cells")
_RECURRENT = re.compile(r"llama_memory_recurrent: +(\S+) RS buffer size = +([\d.]+) MiB")
_COMPUTE = re.compile(
    r"(?:sched_reserve|llama_context): +(\S+) compute buffer size = +([\d.]+) MiB"
)
_UNUSED = re.compile(r"unused tensor \S+ \(size = (\d+) bytes\)")


def request_for(load: ModelLoad, ghost: Path) -> ProbeRequest:
    """The probe that answers for `load`."""
    return ProbeRequest(
        path=ghost,
        n_ctx=load.n_ctx,
        n_batch=load.n_batch,
        n_ubatch=load.n_ubatch,
        n_outputs=load.n_outputs,
        n_seq=load.n_seq,
        kv_type=load.kv_type,
        flash_attn=load.flash_attn is not False,
        gpu_layers=load.gpu_layers,
        rollback_rows=load.rows_of_state // load.n_seq - 1,
        tensor_split=load.tensor_split,
        experts_on_cpu=load.experts_on_cpu,
    )


def parse_log(lines: Iterable[str]) -> ProbeFigures:
    """The figures in a native log of one model and one context."""
    found = ProbeFigures()
    for line in lines:
        if match := _LAYER.search(line):
            found.layer_devices[int(match[1])] = match[2]
        elif match := _KV.search(line):
            found.kv += _mib(match[1])
            found.kv_cells.append(int(match[2]))
        elif match := _RECURRENT.search(line):
            found.recurrent[match[1]] = found.recurrent.get(match[1], 0) + _mib(match[2])
        elif match := _COMPUTE.search(line):
            found.compute[match[1]] = _mib(match[2])
        elif match := _UNUSED.search(line):
            found.unused += int(match[1])
    return found


def probe(
    loads: Sequence[ModelLoad], ghosts: Sequence[Path], machine: Machine, run: ProbeRunner
) -> Plan:
    """The plan by llama.cpp's own figures, on the devices of this machine.

    ghosts: the file to load for each of `loads`. Raises EngineError when llama.cpp refuses one.
    """
    if flash_attention.is_open(loads):
        loads = estimate(loads, machine).loads
    placements, parts = [], []
    requests = [request_for(load, ghost) for load, ghost in zip(loads, ghosts, strict=True)]
    for load, answer in zip(loads, run(requests), strict=True):
        figures = parse_log(answer.lines)
        if not answer.ok or not figures.compute:
            raise EngineError(
                f"llama.cpp cannot plan {load.header.name}: {_reason(answer.lines)}",
                hint="--source estimate works without it",
            )
        placement = _placement(load, figures, machine)
        placements.append(placement)
        parts += _parts(load, placement, figures, machine)
    return assemble(loads, placements, machine, parts, "probe")


def _parts(
    load: ModelLoad, placement: Placement, figures: ProbeFigures, machine: Machine
) -> list[tuple[int, Part]]:
    names = [gpu.name for gpu in machine.gpus]
    count = len(machine.devices)
    by_kind = {kind: [0] * count for kind in KINDS}
    by_kind["weights"] = list(weights(load, placement).by_device)
    by_kind["output"][-1] = output_bytes(load)
    for kind, reported in (("recurrent", figures.recurrent), ("compute", figures.compute)):
        for device, size in reported.items():
            by_kind[kind][_index(device, names)] += size
    # The log has one figure per cache; its layers tell which device holds how much of it.
    shares = [0] * count
    for layer in load.architecture.trunk:
        shares[placement.layers[layer.index]] += layer_kv_bytes(load, layer)
    total = sum(shares)
    for index, share in enumerate(shares):
        by_kind["kv"][index] = round(figures.kv * share / total) if total else 0
    if not total:
        by_kind["kv"][-1] = figures.kv
    return [
        (index, Part(load.role, kind, size))
        for kind in KINDS
        for index, size in enumerate(by_kind[kind])
    ]


def _placement(load: ModelLoad, figures: ProbeFigures, machine: Machine) -> Placement:
    names = [gpu.name for gpu in machine.gpus]
    n_all, host = len(load.architecture.layers), len(names)
    seen = figures.layer_devices
    layers = tuple(_index(seen.get(i, "CPU"), names) for i in range(n_all))
    return Placement(layers, _index(seen.get(n_all, "CPU"), names), host)


def _index(device: str, names: list[str]) -> int:
    """`CUDA0` is a GPU of that name; `CUDA_Host`, `CPU` and the like are the host."""
    return names.index(device) if device in names else len(names)


def _reason(lines: Sequence[str]) -> str:
    for line in lines:
        if "error" in line.lower() or "failed" in line.lower():
            return line.strip()
    return "it gave no reason"


def _mib(text: str) -> int:
    return round(float(text) * MIB)
