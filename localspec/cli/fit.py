"""`localspec fit`: will target and draft go into memory together?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli import options
from localspec.cli.output import Output

if TYPE_CHECKING:
    from localspec.cli.fit_answers import Question
    from localspec.errors import LocalspecError

_IMAGINE = "Another machine"

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL]...", help="As for `run`; several make a table."),
]
All = Annotated[bool, typer.Option("--all", help="Every pair of the catalogue, as a table.")]
Vram = Annotated[
    str,
    typer.Option(
        metavar="SIZE[,SIZE]",
        help="Imagine cards of this memory, such as 24GiB or 24GiB,12GiB.",
        rich_help_panel=_IMAGINE,
    ),
]
Ram = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Imagine this much host memory.", rich_help_panel=_IMAGINE),
]
Unified = Annotated[
    str,
    typer.Option(
        metavar="SIZE", help="Imagine a Mac with this much memory.", rich_help_panel=_IMAGINE
    ),
]
CardName = Annotated[
    str,
    typer.Option(
        "--card",
        metavar="NAME",
        help="Imagine a known machine, such as rtx-4090 or m4-max-64.",
        rich_help_panel=_IMAGINE,
    ),
]
SourceOption = Annotated[
    str,
    typer.Option(
        metavar="estimate|probe|auto",
        help="Own formulas, llama.cpp itself, or the latter where it can run.",
    ),
]
Mmproj = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Count this multimodal projector too.",
        rich_help_panel=options.MEMORY,
    ),
]
GpuLayers = Annotated[
    str,
    typer.Option(
        metavar="N|all|auto",
        help="Layers of the target on the GPU; auto plans all and tells how many fit, which is "
        "what `run` takes.",
        rich_help_panel=options.MEMORY,
    ),
]


def command(
    output: Output,
    names: Names = None,
    all_: All = False,
    vram: Vram = "",
    ram: Ram = "",
    unified: Unified = "",
    card: CardName = "",
    source: SourceOption = "auto",
    draft: options.Draft = "auto",
    draft_max: options.DraftMax = None,
    ctx: options.Ctx = "auto",
    kv_type: options.KvType = "f16",
    draft_kv_type: options.DraftKvType = "f16",
    gpu_layers: GpuLayers = "auto",
    draft_gpu_layers: options.DraftGpuLayers = "auto",
    batch: options.Batch = 2048,
    ubatch: options.Ubatch = 512,
    flash_attn: options.FlashAttn = "auto",
    cpu_moe: options.CpuMoe = False,
    n_cpu_moe: options.NCpuMoe = 0,
    tensor_split: options.TensorSplit = "",
    mmproj: Mmproj = None,
) -> int:
    """Tell whether models go into memory, before anything is downloaded.

    Everything that will be loaded is counted: weights, KV caches, recurrent states, compute and
    output buffers, of target and draft. Exit code 4 means that something does not fit.
    """
    from localspec.cli.engine_options import (
        experts_on_cpu,
        parse_ctx,
        parse_draft,
        parse_gpu_layers,
        parse_shares,
    )
    from localspec.cli.fit_answers import Question, answer_question, make_machine
    from localspec.cli.fit_checks import check_options, projector_bytes
    from localspec.cli.fit_report import document, show
    from localspec.engine.bounds import FLASH_ATTENTION
    from localspec.errors import DoesNotFit, UsageError
    from localspec.memory.request import LoadOptions, check_shares

    if source not in ("estimate", "probe", "auto"):
        raise UsageError(f"--source {source!r} is not known", hint="estimate, probe or auto")
    if names and all_:
        raise UsageError(
            "the name of a model and --all exclude each other",
            hint="names for some models, --all for every pair of the catalogue",
        )
    if not names and not all_:
        raise UsageError(
            "fit needs the name of a model, or --all",
            hint="localspec fit MODEL; names: localspec list",
        )
    load = LoadOptions(
        n_ctx=parse_ctx(ctx) or None,
        kv_type=kv_type,
        draft_kv_type=draft_kv_type,
        gpu_layers=parse_gpu_layers(gpu_layers),
        draft_gpu_layers=parse_gpu_layers(draft_gpu_layers, "--draft-gpu-layers"),
        n_batch=batch,
        n_ubatch=ubatch,
        flash_attn=FLASH_ATTENTION.get(flash_attn),
        experts_on_cpu=experts_on_cpu(all_=cpu_moe, layers=n_cpu_moe),
        tensor_split=parse_shares(tensor_split),
    )
    check_options(load, draft_max, flash_attn)
    choice, projector = parse_draft(draft), projector_bytes(mmproj)
    machine = make_machine(output, vram=vram, ram=ram, unified=unified, card=card)
    check_shares(load.tensor_split, len(machine.gpus))
    question = Question(
        draft=choice,
        draft_max=draft_max,
        options=load,
        machine=machine,
        source=source,
        projector=projector,
    )
    if names is not None and len(names) == 1:
        found = answer_question(names[0], question, output)
        output.document(document(found))
        show(output, found)
        return 0 if found.fit.plan.fits else DoesNotFit.exit_code
    return _table(names, question, output)


def _table(names: list[str] | None, question: Question, output: Output) -> int:
    """Several answers; one that fails gives a row with the reason, not the end."""
    from localspec.catalog.load import load_catalog
    from localspec.cli.fit_answers import Answer, answer_question
    from localspec.cli.fit_report import document, show_table
    from localspec.errors import DoesNotFit, LocalspecError
    from localspec.paths import user_paths

    wanted = names or [pair.id for pair in load_catalog(user_paths()).pairs.values()]
    answers: list[Answer | tuple[str, str]] = []
    errors: list[LocalspecError] = []
    with contextlib.ExitStack() as stack:
        for name in wanted:
            try:
                answers.append(answer_question(name, question, output))
            except LocalspecError as error:
                errors.append(error)
                answers.append((name, _short(error)))
                if _is_away(error):
                    # The network is away: the other rows need not wait for it too.
                    stack.enter_context(_offline())
    output.clear_status()
    output.document(
        [
            {"id": found[0], "error": found[1]} if isinstance(found, tuple) else document(found)
            for found in answers
        ]
    )
    show_table(output, answers)
    if errors and (names is not None or len(errors) == len(answers)):
        return errors[0].exit_code
    fits = all(isinstance(found, tuple) or found.fit.plan.fits for found in answers)
    return 0 if fits or names is None else DoesNotFit.exit_code


def _is_away(error: LocalspecError) -> bool:
    """Whether the Hub could not be reached at all."""
    from localspec.errors import DownloadError

    status = error.fields.get("status", 0)
    return isinstance(error, DownloadError) and status is None and "reason" not in error.fields


def _short(error: LocalspecError) -> str:
    """A reason that goes into a column."""
    if _is_away(error) or error.fields.get("reason") == "offline":
        return "not here, and the Hub is out of reach"
    return error.message


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Nobody asks the Hub until this ends."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
