"""What served models take of memory, and what there is: the figures behind loading on demand."""

from __future__ import annotations

from localspec.engine.bounds import FLASH_ATTENTION
from localspec.engine.settings import EngineSettings
from localspec.errors import BadModelFile, UsageError
from localspec.ggufmeta.header import read_header
from localspec.llama.advice import installed_backends
from localspec.memory.devices import Device, Machine, imagined_machine
from localspec.memory.plan import estimate
from localspec.memory.request import LoadOptions, make_loads

_BOUNDLESS = 1 << 50


def required_memory(settings: EngineSettings) -> int:
    """Bytes of weights, caches and buffers of target and draft, all slots included, by estimate.

    0 when the file cannot be read as a model: loading will tell what is wrong with it.
    """
    try:
        target = read_header(settings.target.path)
        draft = read_header(settings.draft.path) if settings.draft is not None else None
        loads = make_loads(
            target,
            draft,
            LoadOptions(
                n_ctx=settings.n_ctx or None,
                n_seq=settings.n_slots,
                kv_type=settings.target.kv_type,
                draft_kv_type=settings.draft.kv_type if settings.draft else "f16",
                n_batch=settings.n_batch,
                n_ubatch=settings.n_ubatch,
                flash_attn=FLASH_ATTENTION.get(settings.flash_attn),
                draft_max=settings.draft_max,
            ),
        )
    except (BadModelFile, UsageError):
        return 0
    return estimate(loads, _boundless()).required


def memory_budget(machine: Machine) -> int:
    """Bytes that all loaded models may take: of the cards together, of the host where there is
    none. What runs on neither alone is spread by the engine's own plan."""
    if machine.gpus:
        return sum(gpu.usable for gpu in machine.gpus)
    return machine.host.usable


def _boundless() -> Machine:
    """With everything on the GPU where the build has one, else on the host."""
    if installed_backends():
        return imagined_machine(unified=_BOUNDLESS)
    return Machine((), Device("CPU", _BOUNDLESS, _BOUNDLESS), imagined=True)
