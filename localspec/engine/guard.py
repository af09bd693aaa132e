"""Before anything loads: does it fit? What was left to `auto` is made to; the rest is refused.

After the load, what it really took is held against the plan and remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from localspec.engine.bounds import FLASH_ATTENTION
from localspec.engine.child import run_in_child
from localspec.engine.inspection import inspect_library
from localspec.engine.settings import EngineSettings
from localspec.errors import BadModelFile, DoesNotFit, EngineError
from localspec.events import Notice
from localspec.ggufmeta.header import read_header
from localspec.ggufmeta.runnable import refuse_unrunnable
from localspec.llama.advice import installed_backends
from localspec.memory.calibration import Calibration
from localspec.memory.devices import Machine, this_machine
from localspec.memory.fit import (
    Planner,
    answer,
    at_ctx,
    estimator,
    least_experts_on_cpu,
    max_ctx_that_fits,
    max_gpu_layers,
)
from localspec.memory.plan import Plan
from localspec.memory.request import LoadOptions, ModelLoad, check_shares, make_loads
from localspec.units import format_bytes

_LEAST_CTX = 2048
"""A context that `auto` shrinks below this is of no use; layers leave the GPU first."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """Settings to load with, after memory was planned."""

    settings: EngineSettings
    notices: tuple[Notice, ...]
    """What was made smaller, or forced; to be told before loading."""


def settings_that_fit(
    settings: EngineSettings, machine: Machine, *, force: bool = False
) -> Guarded:
    """`settings`, with the context and the GPU layers that fit where they were left to `auto`,
    without flash attention where that is faster, and with the plan of what will be taken.

    force: go on, with a notice, although it does not fit. Raises DoesNotFit, BadModelFile,
    UsageError.
    """
    target = read_header(settings.target.path)
    refuse_unrunnable(target, embeds=settings.embeddings)
    draft = read_header(settings.draft.path) if settings.draft is not None else None
    check_shares(settings.target.tensor_split, len(machine.gpus))
    options = LoadOptions(
        n_ctx=settings.n_ctx or None,
        n_seq=settings.n_slots,
        kv_type=settings.target.kv_type,
        draft_kv_type=settings.draft.kv_type if settings.draft else "f16",
        gpu_layers=settings.target.gpu_layers,
        draft_gpu_layers=settings.draft.gpu_layers if settings.draft else None,
        n_batch=settings.n_batch,
        n_ubatch=settings.n_ubatch,
        flash_attn=FLASH_ATTENTION.get(settings.flash_attn),
        draft_max=settings.draft_max,
        experts_on_cpu=settings.target.experts_on_cpu,
        tensor_split=settings.target.tensor_split,
    )
    try:
        loads = make_loads(target, draft, options)
    except BadModelFile:
        # Planning knows less than llama.cpp does: loading will tell whether the file is bad.
        return Guarded(settings, ())
    planner = estimator(machine)
    plan = planner(loads)
    if plan.fits:
        return Guarded(_with_plan(settings, plan), ())
    smaller = _shrunk(settings, loads, planner, plan)
    if smaller is not None:
        return smaller
    error = _refusal(settings, loads, planner, plan)
    if not force:
        raise error
    return Guarded(settings, (Notice(error.message, "started because of --force"),))


def this_machine_quickly(calibration: Calibration) -> Machine:
    """The devices of this machine, with what earlier loads took on each beyond their plans.
    llama.cpp is asked only where its build has a GPU backend."""
    if not installed_backends():
        return this_machine(())
    try:
        found = run_in_child(inspect_library).devices
    except EngineError:
        # Loading will fail with the same error, and tell it better.
        found = ()
    return this_machine(found, reserves=calibration.reserves())


def learn_from_load(
    settings: EngineSettings, before: Mapping[str, int], after: Mapping[str, int]
) -> dict[str, int]:
    """Compare the plan with the memory that vanished, and remember the difference per device.

    before, after: free bytes by device around the load. What each device took beyond its plan.
    """
    if settings.calibration is None:
        return {}
    calibration = Calibration(settings.calibration)
    beyond: dict[str, int] = {}
    for device, planned in settings.planned:
        if device in before and device in after:
            learned = calibration.learn(
                device, planned=planned, free_before=before[device], free_after=after[device]
            )
            if learned is not None:
                beyond[device] = learned
    return beyond


def _with_plan(settings: EngineSettings, plan: Plan) -> EngineSettings:
    planned = tuple((fit.device.name, fit.required) for fit in plan.gpus)
    flash_attn = "off" if plan.loads[0].flash_attn is False else settings.flash_attn
    return replace(
        settings, planned=planned, planned_host=plan.host.required, flash_attn=flash_attn
    )


def _shrunk(
    settings: EngineSettings, loads: Sequence[ModelLoad], planner: Planner, plan: Plan
) -> Guarded | None:
    """Settings that fit by what `auto` may change; None when nothing of that is enough."""
    if settings.n_ctx == 0:
        n_slots = settings.n_slots
        n_ctx = max_ctx_that_fits(loads, planner) // n_slots // 256 * 256
        if n_ctx >= _LEAST_CTX:
            wanted = loads[0].n_ctx // n_slots
            notice = Notice(f"a context of {n_ctx} tokens fits; {wanted} would not")
            return Guarded(replace(settings, n_ctx=n_ctx), (notice,))
    if settings.target.gpu_layers is not None or not plan.gpus:
        return None
    whole = len(loads[0].architecture.layers) + 1
    tried = [settings.n_ctx]
    if settings.n_ctx == 0 and loads[0].n_ctx > _LEAST_CTX * settings.n_slots:
        tried.append(_LEAST_CTX)
    for n_ctx in tried:
        at = at_ctx(loads, n_ctx * settings.n_slots) if n_ctx else loads
        also = f" with a context of {n_ctx} tokens" if n_ctx != settings.n_ctx else ""
        experts = least_experts_on_cpu(at, planner)
        if experts:
            # Of all weights, experts lose least outside the card: each token uses only a few.
            notice = Notice(
                f"the experts of {experts} of {whole - 1} layers stay in host memory{also}",
                f"the card has no room for them: localspec fit {settings.model_id}",
            )
            target = replace(settings.target, experts_on_cpu=experts)
            return Guarded(replace(settings, target=target, n_ctx=n_ctx), (notice,))
        layers = max_gpu_layers(at, planner)
        if layers:
            notice = Notice(
                f"only {layers} of {whole} layers fit on the GPU{also}",
                f"the others run on the CPU, slowly: localspec fit {settings.model_id}",
            )
            target = replace(settings.target, gpu_layers=layers)
            return Guarded(replace(settings, target=target, n_ctx=n_ctx), (notice,))
    return None


def _refusal(
    settings: EngineSettings, loads: Sequence[ModelLoad], planner: Planner, plan: Plan
) -> DoesNotFit:
    short = next((fit for fit in plan.gpus if fit.required > fit.device.usable), None)
    # On unified memory each device may fit by itself and all of them together may not.
    required = short.required if short is not None else plan.required_host
    device = short.device if short is not None else plan.host.device
    best = next((s for s in answer(loads, planner, plan=plan).suggestions if s.fits), None)
    hint = f"{best.change} fits: {best.text}; " if best is not None else ""
    return DoesNotFit(
        f"{settings.model_id} with {loads[0].n_ctx} tokens of context needs "
        f"{format_bytes(required)} on {device.name}, {format_bytes(device.usable)} are free: "
        f"{format_bytes(plan.shortfall)} too little",
        hint=f"{hint}--force starts it nevertheless",
        device=device.name,
        required=required,
        free=device.usable,
        shortfall=plan.shortfall,
        n_ctx=loads[0].n_ctx,
    )
