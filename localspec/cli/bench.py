"""`localspec bench`: every drafter against plain decoding, on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli import options
from localspec.cli.output import Output
from localspec.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from localspec.bench.methods import Method
    from localspec.bench.runner import Plan, Progress
    from localspec.bench.session import Against, Outcome
    from localspec.bench.tables import Table
    from localspec.bench.workloads import Workload
    from localspec.engine.settings import EngineSettings

MEASURING = "Measuring"


def command(
    output: Output,
    model: options.Model,
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
    draft: options.Draft = "auto",
    draft_max: options.DraftMax = None,
    draft_min: options.DraftMin = 0,
    p_min: options.PMin = None,
    lookup_static: options.LookupStatic = None,
    ctx: options.Ctx = "auto",
    kv_type: options.KvType = "f16",
    draft_kv_type: options.DraftKvType = "f16",
    gpu_layers: options.GpuLayers = "auto",
    draft_gpu_layers: options.DraftGpuLayers = "auto",
    threads: options.Threads = 0,
    batch: options.Batch = 2048,
    ubatch: options.Ubatch = 512,
    flash_attn: options.FlashAttn = "auto",
    temp: options.Temp = 0.0,
    top_k: options.TopK = 40,
    top_p: options.TopP = 0.95,
    min_p: options.MinP = 0.05,
    repeat_penalty: options.RepeatPenalty = 1.0,
    seed: options.Seed = 1,
    raw: options.Raw = False,
) -> int | None:
    """Measure every drafter against plain decoding: same prompts, one table.

    The methods take turns on each prompt, each answer starts with empty caches, and speed is that
    of decoding alone. Ctrl-C ends early and reports what was measured.
    """
    import tempfile

    from localspec.bench.runner import Plan
    from localspec.cli.run_models import prepare_models
    from localspec.cli.run_settings import (
        LoadOptions,
        engine_settings,
        parse_draft,
        sampling_settings,
    )
    from localspec.paths import user_paths

    choice = parse_draft(draft)
    plan = Plan(
        workloads=_workloads(workload, prompts, limit),
        max_tokens=max_tokens,
        repeats=repeats,
        warm=warm,
        sampling=sampling_settings(
            temp=temp,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            seed=seed,
            grammar=None,
        ),
        raw=raw,
    )
    if svg is not None and not svg.absolute().parent.is_dir():
        raise UsageError(f"--svg {svg}: there is no folder {svg.absolute().parent}")
    if against is not None:
        from localspec.bench.llama_server import read_options

        # A wrong path is told now, not after the models have been loaded.
        read_options(against)
    paths = user_paths()
    models = prepare_models(model, choice, output, paths)
    chosen = _methods(methods, fixed, has_draft=models.draft is not None)
    with tempfile.TemporaryDirectory(prefix="localspec-bench-") as folder:
        load = LoadOptions(
            draft_max=draft_max,
            draft_min=draft_min,
            p_min=p_min,
            lookup_static=lookup_static,
            # What the benchmark says must never teach the user's own cache.
            lookup_dynamic=str(Path(folder) / "dynamic.bin") if warm else "off",
            ctx=ctx,
            kv_type=kv_type,
            draft_kv_type=draft_kv_type,
            gpu_layers=gpu_layers,
            draft_gpu_layers=draft_gpu_layers,
            threads=threads,
            batch=batch,
            ubatch=ubatch,
            flash_attn=flash_attn,
        )
        settings = engine_settings(
            models.id,
            models.target,
            models.draft,
            "auto",
            load,
            paths,
            pair_draft_max=models.draft_max,
            pair_p_min=models.p_min,
        )
        outcome, facts = asyncio.run(_measure(settings, plan, chosen, against, output))
    _report(outcome, facts, settings, plan, output, svg=svg, remember=remember)
    return 0 if outcome.finished else Interrupted.exit_code


async def _measure(
    settings: EngineSettings,
    plan: Plan,
    methods: tuple[Method, ...],
    binary: Path | None,
    output: Output,
) -> tuple[Outcome, dict[str, Any]]:
    """The outcome, and what was asked for as data."""
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
            against=_against(binary, settings, n_ctx, n_threads),
            on_progress=lambda event: _show(event, output),
        )
        output.note(f"{session.total} answers to measure; Ctrl-C ends early with what there is")
        with on_first_interrupt(session.cancel):
            outcome = await session.run()
    finally:
        output.clear_status()
        await engine.close()
    for notice in outcome.notices:
        output.warn(notice.message, notice.hint)
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
    }
    return outcome, facts


def _report(
    outcome: Outcome,
    facts: dict[str, Any],
    settings: EngineSettings,
    plan: Plan,
    output: Output,
    *,
    svg: Path | None,
    remember: bool,
) -> None:
    from localspec import __version__
    from localspec.bench.history import History, remembered
    from localspec.bench.machine import this_machine
    from localspec.bench.report import as_json, sentence, versus_words
    from localspec.bench.server_methods import BEST
    from localspec.bench.tables import position_table, summary_table, workload_table
    from localspec.paths import user_paths

    comparison = outcome.comparison
    if not comparison.prompts:
        output.document({"finished": outcome.finished, "results": [], "summary": []})
        output.note("nothing was measured")
        return
    machine = this_machine()
    when = _now()
    output.document(
        as_json(
            comparison,
            machine=machine,
            model=settings.model_id,
            workloads=plan.workloads,
            settings={**facts, "version": __version__, "when": when},
            finished=outcome.finished,
            warm=outcome.warm,
            versus=outcome.versus,
        )
    )
    width = _width()
    for table in (
        summary_table(comparison),
        workload_table(comparison),
        position_table(comparison),
    ):
        _print_table(table, width, output)
    if outcome.warm is not None:
        output.line("Prompts seen before, with what the caches learned from them:")
        _print_table(workload_table(outcome.warm), width, output)
    _print_chart(outcome, width, output)
    output.line(sentence(comparison))
    for versus in outcome.versus:
        if versus.rival == BEST:
            output.line(versus_words(versus))
    output.note(
        "WORST: slowest prompt. NOISE: between repeats. FORMULA: what the textbook formula makes "
        "of acceptance and cost. IDENTICAL: answers that are plain decoding's to the last token."
    )
    if svg is not None:
        _write_svg(svg, outcome, settings.model_id, f"{machine} · {when[:10]}")
        output.note(f"wrote {svg}")
    if remember and outcome.finished:
        History(user_paths(), machine).add(
            remembered(
                comparison,
                model=settings.model_id,
                when=when,
                version=__version__,
                settings=facts,
                workloads={w.name: w.version for w in plan.workloads},
            )
        )


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
    binary: Path | None, settings: EngineSettings, n_ctx: int, n_threads: int
) -> Against | None:
    """A llama-server, its processes kept up where several of them surely fit beside the engine."""
    if binary is None:
        return None
    import psutil

    from localspec.bench.session import Against

    size = settings.target.path.stat().st_size
    on_cpu = settings.target.gpu_layers == 0
    keep = on_cpu and size * 8 < psutil.virtual_memory().available
    return Against(binary, n_ctx, n_threads, keep)


def _show(event: Progress, output: Output) -> None:
    from localspec.bench.runner import Running

    if isinstance(event, Running):
        fraction = min(event.done / event.total, 0.999)
        output.progress("measuring", fraction, f"{event.method} {event.prompt or event.phase}")


def _print_table(table: Table, width: int, output: Output) -> None:
    if not table.rows or len(table.columns) < 2:
        return
    for piece in table.split(width):
        output.table(piece.columns, piece.rows, right=piece.right)
        output.line()


def _print_chart(outcome: Outcome, width: int, output: Output) -> None:
    from localspec.bench.bars import bar_groups
    from localspec.bench.chart import text_chart

    for line in text_chart(bar_groups(outcome.comparison, _shown(outcome)), width):
        output.line(line)
    output.line()


def _write_svg(path: Path, outcome: Outcome, model: str, subtitle: str) -> None:
    from localspec.bench.bars import bar_groups
    from localspec.bench.report import sentence
    from localspec.bench.svg import svg_chart

    text = svg_chart(
        bar_groups(outcome.comparison, _shown(outcome)),
        title=f"{Path(model).name or model}: speed-up over plain decoding",
        subtitle=subtitle,
        footer=sentence(outcome.comparison),
    )
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _shown(outcome: Outcome) -> list[str]:
    """Methods of the charts: ours without fixed lengths, and the best of llama-server."""
    from localspec.bench.server_methods import BEST

    names = outcome.comparison.methods[1:]
    shown = [name for name in names if "@" not in name and not name.startswith("server:")]
    shown += [name for name in names if name == BEST]
    return shown or list(names)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((120, 40)).columns, 160))


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
