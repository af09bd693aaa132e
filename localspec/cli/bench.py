"""`localspec bench`: every drafter against plain decoding, on this machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli import options
from localspec.cli.engine_options import EngineOptions, settings_for
from localspec.cli.output import Output
from localspec.cli.sampling_options import BenchSamplingOptions, sampling_settings
from localspec.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from localspec.bench.methods import Method
    from localspec.bench.runner import Plan, Progress
    from localspec.bench.session import Against, Outcome
    from localspec.bench.workloads import Workload
    from localspec.engine.settings import EngineSettings

MEASURING = "Measuring"


def command(
    output: Output,
    model: options.Model,
    engine: EngineOptions,
    sampling: BenchSamplingOptions,
    methods: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="What to measure besides plain: ngram, model, auto, or with a draft length such "
            "as ngram@4; separated by commas.  [default: all that this pair has]",
            show_default=False,
            rich_help_panel=MEASURING,
        ),
    ] = "",
    fixed: Annotated[
        bool,
        typer.Option(
            "--fixed", help="Fixed draft lengths of 2, 4 and 8 too.", rich_help_panel=MEASURING
        ),
    ] = False,
    workload: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Which workloads: chat, translation, summary, qa, math, rag, code, edit, json, "
            "logs; separated by commas.  [default: all]",
            show_default=False,
            rich_help_panel=MEASURING,
        ),
    ] = "",
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own prompts instead: JSON lines, or text with one prompt on each line.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Only the first N prompts of each workload.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Answers to each prompt.", rich_help_panel=MEASURING),
    ] = 3,
    max_tokens: Annotated[
        int,
        typer.Option(
            metavar="N", min=2, help="Tokens of each answer at most.", rich_help_panel=MEASURING
        ),
    ] = 128,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Measure repeated prompts with what the caches have learned too, apart.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A llama-server binary to measure in the same table, with each of its own kinds "
            "of speculation.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the chart there.", rich_help_panel=MEASURING),
    ] = None,
    remember: Annotated[
        bool,
        typer.Option(
            "--remember/--no-remember",
            help="Keep the result for `localspec list`; default: yes.",
            rich_help_panel=MEASURING,
        ),
    ] = True,
    raw: options.Raw = False,
) -> int | None:
    """Measure every drafter against plain decoding: same prompts, one table.

    The methods take turns on each prompt, each answer starts with empty caches, and speed is that
    of decoding alone. Ctrl-C, SIGTERM or a failure ends early and reports what was measured.
    """
    import tempfile

    from localspec.bench.runner import Plan
    from localspec.cli.bench_report import report
    from localspec.cli.run_engine import fitting_settings, warn_about_build
    from localspec.paths import user_paths

    plan = Plan(
        workloads=_workloads(workload, prompts, limit),
        max_tokens=max_tokens,
        repeats=repeats,
        warm=warm,
        sampling=sampling_settings(sampling),
        raw=raw,
    )
    if svg is not None and not svg.absolute().parent.is_dir():
        raise UsageError(
            f"--svg {svg}: there is no folder {svg.absolute().parent}", hint="make it first"
        )
    if against is not None:
        from localspec.bench.llama_server import read_options

        # A wrong path is told now, not after the models have been loaded.
        read_options(against)
    paths = user_paths()
    settings = settings_for(model, engine, output, paths)
    chosen = _methods(methods, fixed, has_draft=settings.draft is not None)
    settings = fitting_settings(settings, paths, output, force=engine.force)
    warn_about_build(output)
    with tempfile.TemporaryDirectory(prefix="localspec-bench-") as folder:
        # What the benchmark says must never teach the user's own cache.
        dynamic = Path(folder) / "dynamic.bin" if warm else None
        settings = replace(settings, method="auto", lookup_folder=None, lookup_dynamic=dynamic)
        measuring = _measure(settings, plan, chosen, against, engine.flash_attn, output)
        outcome, facts = asyncio.run(measuring)
    report(outcome, facts, settings, plan, output, svg=svg, remember=remember)
    if outcome.error is not None:
        output.warn(outcome.error.message, outcome.error.hint)
        return outcome.error.exit_code
    return 0 if outcome.finished else Interrupted.exit_code


async def _measure(
    settings: EngineSettings,
    plan: Plan,
    methods: tuple[Method, ...],
    binary: Path | None,
    flash_attn: str,
    output: Output,
) -> tuple[Outcome, dict[str, Any]]:
    """The outcome, and what was asked for as data.

    flash_attn: as it was asked for, for llama-server to decide itself where it is `auto`.
    """
    from localspec.bench.memory import memory_use, memory_words
    from localspec.bench.session import BenchSession
    from localspec.cli.run_engine import on_first_interrupt, start_engine
    from localspec.engine.threads import default_threads

    engine = await start_engine(settings, output)
    try:
        n_ctx = int(engine.facts["n_ctx"])
        n_threads = settings.n_threads or default_threads()
        session = BenchSession(
            engine,
            settings,
            plan,
            methods,
            against=_against(binary, settings, n_ctx, n_threads, flash_attn),
            on_progress=lambda event: _show(event, output),
        )
        output.note(f"{session.total} answers to measure; Ctrl-C ends early with what there is")
        with on_first_interrupt(session.cancel, also=("SIGTERM", "SIGHUP")):
            outcome = await session.run()
        used = memory_use(settings, engine.facts.get("beyond_plan", {}), engine.pid)
    finally:
        output.clear_status()
        await engine.close()
    for notice in outcome.notices:
        output.warn(notice.message, notice.hint)
    for use in used:
        output.note(memory_words(use))
    facts = {
        "target": str(settings.target.path),
        "draft": str(settings.draft.path) if settings.draft else None,
        "description": engine.facts.get("description"),
        "n_ctx": n_ctx,
        "threads": n_threads,
        "kv_type": settings.target.kv_type,
        "gpu_layers": settings.target.gpu_layers,
        "draft_max": settings.draft_max,
        "p_min": settings.p_min,
        "max_tokens": plan.max_tokens,
        "repeats": plan.repeats,
        "temp": plan.sampling.temp,
        "against": str(binary) if binary else None,
        "error": outcome.error.message if outcome.error else None,
        "memory": [use.as_dict() for use in used],
    }
    return outcome, facts


def _workloads(names: str, prompts: Path | None, limit: int | None) -> tuple[Workload, ...]:
    from localspec.bench.workloads import WORKLOADS, load_workloads, read_prompts

    listed = _listed(names)
    if prompts is not None and listed:
        raise UsageError("--prompts and --workload exclude each other", hint="give one of them")
    found = (read_prompts(prompts),) if prompts else load_workloads(listed or WORKLOADS)
    return tuple(workload.first(limit) for workload in found) if limit else found


def _methods(names: str, fixed: bool, *, has_draft: bool) -> tuple[Method, ...]:
    from localspec.bench.methods import choose_methods, default_methods, fixed_methods

    listed = _listed(names)
    if listed:
        chosen = choose_methods(listed, has_draft=has_draft)
    else:
        chosen = default_methods(has_draft=has_draft)
    if fixed:
        chosen += tuple(m for m in fixed_methods(has_draft=has_draft) if m not in chosen)
    return chosen


def _against(
    binary: Path | None, settings: EngineSettings, n_ctx: int, n_threads: int, flash_attn: str
) -> Against | None:
    """A llama-server, its processes kept up where several of them surely fit beside the engine."""
    if binary is None:
        return None
    import psutil

    from localspec.bench.session import Against

    size = settings.target.path.stat().st_size
    on_cpu = settings.target.gpu_layers == 0
    keep = on_cpu and size * 8 < psutil.virtual_memory().available
    return Against(binary, n_ctx, n_threads, keep, flash_attn)


def _show(event: Progress, output: Output) -> None:
    from localspec.bench.runner import Running

    if isinstance(event, Running):
        fraction = min(event.done / event.total, 0.999)
        output.progress("measuring", fraction, f"{event.method} {event.prompt or event.phase}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
