"""Answers: the largest context and the most GPU layers that fit, and what would free memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localspec.ggufmeta.ggml_types import BY_NAME
from localspec.memory.devices import Machine
from localspec.memory.plan import Plan, estimate
from localspec.memory.request import MAX_ROLLBACK_ROWS, ModelLoad

CTX_STEP = 256
_MOST_FILES = 3
"""Other quantisations that are suggested at a time."""
Planner = Callable[[Sequence[ModelLoad]], Plan]
"""How a set of loads becomes a plan: by estimate or by probe, on one machine."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change that makes it fit, or frees memory."""

    change: str
    """`--ctx 16384`: what to write, in the words of the command line."""
    text: str
    """What it costs."""
    required: int
    """Bytes on all devices together with this change."""
    freed: int
    """Bytes less than without it, on the device that is short."""
    fits: bool


@dataclass(frozen=True, slots=True)
class SmallerFile:
    """Another quantisation of the same repository."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one pair on one machine."""

    plan: Plan
    max_ctx: int
    """The largest context that fits, a multiple of 256; 0 when none does."""
    max_gpu_layers: int | None
    """Most layers of the target on GPUs that fit; None when none and not even 0 of them do, or
    without a GPU."""
    suggestions: tuple[Suggestion, ...]


def estimator(machine: Machine, projector: int = 0) -> Planner:
    """Plans by estimate on `machine`."""
    return lambda loads: estimate(loads, machine, projector)


def answer(
    loads: Sequence[ModelLoad],
    planner: Planner,
    *,
    plan: Plan | None = None,
    smaller: Sequence[SmallerFile] = (),
) -> Fit:
    """Everything `fit` tells about `loads`.

    planner: for the searches; `plan` may bring the figures of a probe for the loads as asked.
    """
    asked = plan if plan is not None else planner(loads)
    max_ctx = max_ctx_that_fits(loads, planner)
    layers = max_gpu_layers(loads, planner) if asked.gpus else None
    return Fit(asked, max_ctx, layers, suggest(loads, planner, asked, max_ctx, layers, smaller))


def max_ctx_that_fits(loads: Sequence[ModelLoad], planner: Planner) -> int:
    """The largest multiple of 256, up to the target's own context, with which everything fits."""
    most = loads[0].architecture.n_ctx_train or loads[0].n_ctx
    most = max(CTX_STEP, most // CTX_STEP * CTX_STEP)

    def fits(steps: int) -> bool:
        return planner(at_ctx(loads, steps * CTX_STEP)).fits

    return _largest(most // CTX_STEP, fits) * CTX_STEP


def max_gpu_layers(loads: Sequence[ModelLoad], planner: Planner) -> int | None:
    """Most layers of the target on GPUs, the output counted as one, with which everything fits.

    0 when it fits with all of them on the host only, None when it does not even so.
    """
    most = len(loads[0].architecture.layers) + 1

    def plan(layers: int) -> Plan:
        return planner((replace(loads[0], gpu_layers=layers), *loads[1:]))

    def cards_have_room(layers: int) -> bool:
        return all(gpu.fits for gpu in plan(layers).gpus)

    # More layers need more of the cards and less of the host: the most that go into the cards
    # leave the host the most room.
    found = _largest(most, cards_have_room)
    return found if plan(found).fits else None


def least_experts_on_cpu(loads: Sequence[ModelLoad], planner: Planner) -> int | None:
    """Fewest layers, from the first, whose experts must stay in host memory for everything to fit.

    0 when all of them may go to the GPUs; None without experts, or when it does not fit even so.
    """
    target = loads[0]
    most = len(target.architecture.layers)
    if not target.architecture.n_expert:
        return None

    def plan(layers: int) -> Plan:
        return planner((replace(target, experts_on_cpu=layers), *loads[1:]))

    def cards_have_room(on_gpu: int) -> bool:
        return all(gpu.fits for gpu in plan(most - on_gpu).gpus)

    found = most - _largest(most, cards_have_room)
    return found if plan(found).fits else None


def at_ctx(loads: Sequence[ModelLoad], n_ctx: int) -> tuple[ModelLoad, ...]:
    """The same loads with another context for all of them."""
    return tuple(load.with_ctx(n_ctx) for load in loads)


def suggest(
    loads: Sequence[ModelLoad],
    planner: Planner,
    asked: Plan,
    max_ctx: int,
    layers: int | None,
    smaller: Sequence[SmallerFile] = (),
) -> tuple[Suggestion, ...]:
    """Changes that help, the cheapest that makes it fit first, then by what they free."""
    found: list[tuple[tuple[int, int], Suggestion]] = []

    def consider(price: tuple[int, int], change: str, text: str, after: Plan) -> None:
        freed = _decisive(asked, asked) - _decisive(asked, after)
        if after.fits > asked.fits or freed > 0:
            found.append((price, Suggestion(change, text, after.required, freed, after.fits)))

    for price, (change, text, changed) in enumerate(
        _changes(loads, planner, asked, max_ctx, layers), 1
    ):
        consider((price, 0), change, text, planner(changed))
    for index, (file, after) in enumerate(_smaller_that_help(loads, planner, smaller)):
        consider((5, index), file.name, "a smaller quantisation, at some loss of quality", after)
    found.sort(
        key=lambda item: (not item[1].fits, item[0] if item[1].fits else (0, 0), -item[1].freed)
    )
    return tuple(suggestion for _, suggestion in found)


def _smaller_that_help(
    loads: Sequence[ModelLoad], planner: Planner, smaller: Sequence[SmallerFile]
) -> list[tuple[SmallerFile, Plan]]:
    """The largest files with which everything fits, or the smallest one when none is enough."""
    target, *others = loads
    helping: list[tuple[SmallerFile, Plan]] = []
    last: tuple[SmallerFile, Plan] | None = None
    for file in sorted(smaller, key=lambda file: -file.size):
        # Its header is not here: every tensor is taken to shrink as the whole file does.
        scale = file.size / target.header.tensor_bytes
        if scale >= target.weight_scale:
            continue
        last = file, planner((replace(target, weight_scale=scale), *others))
        if last[1].fits:
            helping.append(last)
            if len(helping) == _MOST_FILES:
                break
    return helping or ([last] if last is not None else [])


def _changes(
    loads: Sequence[ModelLoad],
    planner: Planner,
    asked: Plan,
    max_ctx: int,
    layers: int | None,
) -> list[tuple[str, str, tuple[ModelLoad, ...]]]:
    """Option, price in words, and the loads with it; cheapest price first."""
    target = loads[0]
    changes: list[tuple[str, str, tuple[ModelLoad, ...]]] = []
    changes += _smaller_kv(loads)
    if target.flash_attn is False:
        on = tuple(replace(load, flash_attn=True) for load in loads)
        changes.append(("--flash-attn on", "the same text, less to compute with", on))
    if target.ubatch > 128:
        small = tuple(replace(load, n_ubatch=max(128, load.n_outputs)) for load in loads)
        changes.append(("--ubatch 128", "long prompts are read more slowly", small))
    if target.architecture.has_state and target.rows_of_state > 3:
        rows = min(MAX_ROLLBACK_ROWS, target.rollback_rows)
        short = (replace(target, rollback_rows=2, n_outputs=3), *loads[1:])
        changes.append(
            ("--draft-max 2", f"drafts of 2 tokens instead of {rows}: each row is a state", short)
        )
    smaller_ctx = max_ctx if 0 < max_ctx < target.n_ctx else target.n_ctx // 2
    if CTX_STEP <= smaller_ctx < target.n_ctx:
        text = f"{smaller_ctx} tokens of context instead of {target.n_ctx}"
        changes.append((f"--ctx {smaller_ctx}", text, at_ctx(loads, smaller_ctx)))
    if len(loads) > 1:
        if asked.gpus and loads[1].gpu_layers != 0:
            moved = (target, replace(loads[1], gpu_layers=0), *loads[2:])
            changes.append(
                ("--draft-gpu-layers 0", "the draft on the CPU, several times slower", moved)
            )
        changes.append(
            ("--draft ngram", "no draft model: n-grams help on repetitive text only", (target,))
        )
    changes += _fewer_experts(loads, asked, planner)
    whole = len(target.architecture.layers) + 1
    if asked.gpus and layers is not None and layers < min(whole, asked.placements[0].on_gpu):
        fewer = (replace(target, gpu_layers=layers), *loads[1:])
        others = f"the other {whole - layers}" if layers else f"all {whole}"
        text = f"{others} layers on the CPU: slow"
        changes.append((f"--gpu-layers {layers}", text, fewer))
    return changes


def _fewer_experts(
    loads: Sequence[ModelLoad], asked: Plan, planner: Planner
) -> list[tuple[str, str, tuple[ModelLoad, ...]]]:
    """Experts in host memory: of as many layers as it takes to fit."""
    if not asked.gpus or asked.fits:
        return []
    layers = least_experts_on_cpu(loads, planner)
    if not layers or layers <= loads[0].experts_on_cpu:
        return []
    most = len(loads[0].architecture.layers)
    change = "--cpu-moe" if layers == most else f"--n-cpu-moe {layers}"
    which = f"the experts of {layers} of {most} layers"
    text = f"{which} on the CPU: slow, but not as slow as whole layers there"
    return [(change, text, (replace(loads[0], experts_on_cpu=layers), *loads[1:]))]


def _smaller_kv(
    loads: Sequence[ModelLoad],
) -> list[tuple[str, str, tuple[ModelLoad, ...]]]:
    """The caches of more than 8 bits made q8_0, target's and draft's each by its own option."""
    size = {load.role: _bytes_per_value(load.kv_type) for load in loads}
    wide = [load.role for load in loads if size[load.role] > _bytes_per_value("q8_0")]
    if not wide or loads[0].flash_attn is False:
        return []
    options = {"target": "--kv-type", "draft": "--draft-kv-type"}
    change = " ".join(f"{options[role]} q8_0" for role in wide)
    sixteen = len(wide) == len(loads) and set(size.values()) == {2.0}
    text = f"{'half the' if sixteen else 'a smaller'} KV cache, hardly less exact"
    changed = tuple(replace(load, kv_type="q8_0") if load.role in wide else load for load in loads)
    return [(change, text, changed)]


def _bytes_per_value(kv_type: str) -> float:
    kind = BY_NAME[kv_type]
    return kind.size / kind.block


def _decisive(asked: Plan, plan: Plan) -> int:
    """Bytes that `plan` takes on the devices `asked` is short on; where it is short on none, on
    the GPUs, or the host where there are none."""
    before = (*asked.gpus, asked.host)
    after = (*plan.gpus, plan.host)
    short = {index for index, fit in enumerate(before) if not fit.fits}
    deciding = short or set(range(len(asked.gpus))) or {0}
    sharing = {index for index, fit in enumerate(before) if fit.shared_headroom is not None}
    if deciding & sharing:
        # One budget: what the GPU takes is missing on the host.
        deciding |= sharing
    return sum(after[index].required for index in deciding)


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` for which `fits`, 0 when none; `fits` is monotone."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
