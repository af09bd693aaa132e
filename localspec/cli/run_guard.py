"""Before anything loads: does it fit? What was left to `auto` is made to; the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from localspec.cli.output import Output
from localspec.engine.settings import EngineSettings
from localspec.errors import BadModelFile, DoesNotFit, EngineError
from localspec.units import format_bytes

if TYPE_CHECKING:
    from localspec.memory.devices import Machine
    from localspec.memory.fit import Planner
    from localspec.memory.plan import Plan
    from localspec.memory.request import ModelLoad

_LEAST_CTX = 2048
"""A context that `auto` shrinks below this is of no use; layers leave the GPU first."""


def settings_that_fit(
    settings: EngineSettings, machine: Machine, output: Output, *, force: bool = False
) -> EngineSettings:
    """`settings`, with the context and the GPU layers that fit where they were left to `auto`.

    Raises DoesNotFit (a warning with `force`), BadModelFile, UsageError.
    """
    from localspec.ggufmeta.header import read_header
    from localspec.ggufmeta.runnable import refuse_unrunnable
    from localspec.memory.fit import estimator
    from localspec.memory.request import LoadOptions, make_loads

    target = read_header(settings.target.path)
    refuse_unrunnable(target)
    draft = read_header(settings.draft.path) if settings.draft is not None else None
    options = LoadOptions(
        n_ctx=settings.n_ctx or None,
        kv_type=settings.target.kv_type,
        draft_kv_type=settings.draft.kv_type if settings.draft else "f16",
        gpu_layers=settings.target.gpu_layers,
        draft_gpu_layers=settings.draft.gpu_layers if settings.draft else None,
        n_batch=settings.n_batch,
        n_ubatch=settings.n_ubatch,
        flash_attn=settings.flash_attn != "off",
        draft_max=settings.draft_max,
    )
    try:
        loads = make_loads(target, draft, options)
    except BadModelFile:
        # Planning knows less than llama.cpp does: loading will tell whether the file is bad.
        return settings
    planner = estimator(machine)
    plan = planner(loads)
    if plan.fits:
        return settings
    smaller = _shrunk(settings, loads, planner, plan, output)
    if smaller is not None:
        return smaller
    error = _refusal(settings, loads, planner, plan)
    if not force:
        raise error
    output.warn(error.message, "started because of --force")
    return settings


def this_machine_quickly() -> Machine:
    """The devices of this machine. llama.cpp is asked only where its build has a GPU backend."""
    from localspec.llama.advice import installed_backends
    from localspec.memory.devices import this_machine

    if not installed_backends():
        return this_machine(())
    from localspec.engine.child import run_in_child
    from localspec.engine.inspection import inspect_library

    try:
        return this_machine(run_in_child(inspect_library).devices)
    except EngineError:
        # Loading will fail with the same error, and tell it better.
        return this_machine(())


def _shrunk(
    settings: EngineSettings,
    loads: Sequence[ModelLoad],
    planner: Planner,
    plan: Plan,
    output: Output,
) -> EngineSettings | None:
    """Settings that fit by what `auto` may change; None when nothing of that is enough."""
    from localspec.memory.fit import max_ctx_that_fits, max_gpu_layers

    if settings.n_ctx == 0:
        n_ctx = max_ctx_that_fits(loads, planner)
        if n_ctx >= _LEAST_CTX:
            output.note(f"a context of {n_ctx} tokens fits; {loads[0].n_ctx} would not")
            return replace(settings, n_ctx=n_ctx)
    if settings.target.gpu_layers is None and plan.gpus:
        layers = max_gpu_layers(loads, planner)
        if layers > 0:
            output.warn(
                f"only {layers} of {len(loads[0].architecture.layers) + 1} layers fit on the GPU",
                f"the others run on the CPU, slowly: localspec fit {settings.model_id}",
            )
            return replace(settings, target=replace(settings.target, gpu_layers=layers))
    return None


def _refusal(
    settings: EngineSettings, loads: Sequence[ModelLoad], planner: Planner, plan: Plan
) -> DoesNotFit:
    from localspec.memory.fit import answer

    short = next((fit for fit in plan.gpus if not fit.fits), None)
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
