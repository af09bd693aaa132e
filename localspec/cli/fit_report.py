"""How `fit` shows its answers: a verdict, a bar per device, a table of parts, suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localspec.cli.output import Output
from localspec.units import format_bytes

if TYPE_CHECKING:
    from localspec.cli.fit_answers import Answer
    from localspec.cli.fit_head import HeadCost
    from localspec.memory.plan import DeviceFit, Part

_WIDTH = 48
_LETTERS = {
    ("target", "weights"): ("█", "blue"),
    ("draft", "weights"): ("▓", "magenta"),
    ("projector", "weights"): ("▒", "magenta"),
    ("target", "kv"): ("▒", "cyan"),
    ("draft", "kv"): ("░", "cyan"),
    ("target", "recurrent"): ("▒", "cyan"),
    ("draft", "recurrent"): ("░", "cyan"),
}
_OTHER = ("▪", "yellow")


def document(answer: Answer) -> dict[str, Any]:
    """The JSON of one answer."""
    plan, fit = answer.fit.plan, answer.fit
    target = plan.loads[0]
    return {
        "id": answer.id,
        "fits": plan.fits,
        "devices": [_device(found) for found in plan.gpus],
        "host": _device(plan.host),
        "ctx": plan.n_ctx,
        "kv_type": target.kv_type,
        "gpu_layers": plan.placements[0].on_gpu,
        "max_ctx_that_fits": fit.max_ctx,
        "max_gpu_layers_that_fit": fit.max_gpu_layers,
        "suggestions": [
            {
                "change": suggestion.change,
                "text": suggestion.text,
                "required": suggestion.required,
                "fits": suggestion.fits,
            }
            for suggestion in fit.suggestions
        ],
        "head": answer.head,
        "source": plan.source,
        "notes": list(answer.notes),
    }


def show(output: Output, answer: Answer) -> None:
    """One answer for people."""
    plan, fit = answer.fit.plan, answer.fit
    for note in answer.notes:
        output.note(note)
    verdict = output.style("fits", "green bold")
    if not plan.fits:
        missing = format_bytes(plan.shortfall)
        verdict = output.style("does not fit", "red bold") + f", {missing} too much"
    output.line(f"{answer.id} with {plan.n_ctx} tokens of context: {verdict}")
    output.line()
    for found in (*plan.gpus, plan.host):
        if found.parts:
            _show_device(output, found)
    most = "no context fits" if not fit.max_ctx else f"{fit.max_ctx} tokens of context fit at most"
    output.line(most + _layers_text(answer))
    shown = fit.suggestions[:5]
    width = max((len(suggestion.change) for suggestion in shown), default=0)
    for index, suggestion in enumerate(shown):
        if index == 0:
            output.line("to make it fit:" if not plan.fits else "to free memory:")
        mark = output.style("✓", "green") if suggestion.fits else " "
        freed = format_bytes(suggestion.freed)
        output.line(f"  {mark} {suggestion.change:<{width}}  {freed:>9} less: {suggestion.text}")
    if answer.head is not None:
        output.line(_head_text(answer.head))
    output.note("figures: " + _source_text(plan.source))


def show_table(output: Output, answers: list[Answer | tuple[str, str]]) -> None:
    """One row per model; a name with a reason is one that could not be answered."""
    rows = []
    for answer in answers:
        if isinstance(answer, tuple):
            rows.append([answer[0], "?", "", "", "", answer[1]])
            continue
        plan = answer.fit.plan
        # The host has room where cards do the work, and counts when it has not.
        deciding = [*plan.gpus, *([] if plan.gpus and plan.host.fits else [plan.host])]
        rows.append(
            [
                answer.id,
                "yes" if plan.fits else "no",
                format_bytes(sum(f.required for f in (*plan.gpus, plan.host))),
                format_bytes(min(found.headroom for found in deciding)),
                str(answer.fit.max_ctx),
                "" if plan.fits else _best_change(answer),
            ]
        )
    columns = ["model", "fits", "needs", "headroom", "max ctx", "best change"]
    output.table(columns, rows, right=(2, 3, 4))


def _best_change(answer: Answer) -> str:
    """The cheapest change with which everything fits; a dash when none is enough."""
    return next((found.change for found in answer.fit.suggestions if found.fits), "–")


def _device(found: DeviceFit) -> dict[str, Any]:
    return {
        "name": found.device.name,
        "total": found.device.total,
        "free": found.device.usable,
        "required": found.required,
        "headroom": found.headroom,
        "parts": [
            {"model": part.model, "kind": part.kind, "bytes": part.bytes} for part in found.parts
        ],
    }


def _show_device(output: Output, found: DeviceFit) -> None:
    device = found.device
    title = output.style(device.name, "bold")
    about = f" ({device.description})" if device.description else ""
    output.line(
        f"{title}{about}: {format_bytes(found.required)} of {format_bytes(device.usable)} free"
        + (f", {format_bytes(abs(found.headroom))} {'left' if found.fits else 'too much'}")
        + (" of the memory it shares" if found.shared_headroom == found.headroom else "")
    )
    output.line(_bar(output, found))
    for part in found.parts:
        letter, color = _LETTERS.get((part.model, part.kind), _OTHER)
        name = f"{part.model} {part.kind}"
        output.line(f"  {output.style(letter, color)} {name:<18} {format_bytes(part.bytes):>10}")
    output.line()


def _bar(output: Output, found: DeviceFit) -> str:
    """The parts side by side, to scale; what does not go in runs over the mark at the end."""
    whole = max(found.device.usable, found.required, 1)
    cells: list[str] = []
    used = end = 0
    for part in _in_order(found.parts):
        used += part.bytes
        letter, color = _LETTERS.get((part.model, part.kind), _OTHER)
        width = round(used / whole * _WIDTH) - end
        end += width
        if width:
            cells.append(output.style(letter * width, color))
    free = "·" * (_WIDTH - end)
    mark = "" if found.fits else output.style(" ✗", "red bold")
    return f"  [{''.join(cells)}{free}]{mark}"


def _in_order(parts: tuple[Part, ...]) -> list[Part]:
    kinds = ["weights", "kv", "recurrent", "compute", "output"]
    return sorted(parts, key=lambda part: kinds.index(part.kind))


def _layers_text(answer: Answer) -> str:
    layers, plan = answer.fit.max_gpu_layers, answer.fit.plan
    if not plan.gpus:
        return ""
    whole = len(plan.loads[0].architecture.layers) + 1
    if layers is None:
        return ", no number of layers on the GPU fits"
    if layers == 0:
        return ", no layer would fit on the GPU"
    if layers == whole:
        return f", all {whole} layers fit on the GPU"
    return f", at most {layers} of {whole} layers would fit on the GPU"


def _head_text(head: HeadCost) -> str:
    adds = f"{format_bytes(head.weights)} of weights"
    if head.kv:
        adds += f" and {format_bytes(head.kv)} of cache"
    elif head.kv == 0:
        adds += "; it reads the target's cache"
    return f"not counted: the {head.method} head, which is not built yet, would add {adds}"


def _source_text(source: str) -> str:
    if source == "probe":
        return "llama.cpp's own, for the devices that are here"
    return "estimated from the header"
