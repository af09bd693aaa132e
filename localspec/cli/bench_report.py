"""What `localspec bench` says at its end: tables, chart, sentence, JSON, SVG; and the history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec.cli.output import Output
from localspec.errors import UsageError
from localspec.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localspec.bench.results import Versus
    from localspec.bench.runner import Plan
    from localspec.bench.session import Outcome
    from localspec.bench.tables import Table
    from localspec.engine.settings import EngineSettings


def report(
    outcome: Outcome,
    facts: dict[str, Any],
    settings: EngineSettings,
    plan: Plan,
    output: Output,
    *,
    svg: Path | None,
    remember: bool,
) -> None:
    """Tables, chart and sentence, or the JSON document; then the files that were asked for.

    facts: what was asked for, as data. Raises UsageError when the SVG cannot be written.
    """
    from localspec import __version__
    from localspec.bench.history import History, remembered
    from localspec.bench.machine import this_machine
    from localspec.bench.report import as_json, sentence, versus_words
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
    for versus in _told(outcome.versus):
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


def _told(found: Sequence[Versus]) -> list[Versus]:
    """Against the best of llama-server, and against the strongest of our own settings."""
    from localspec.bench.methods import PLAIN_NAME
    from localspec.bench.server_methods import BEST, FOREIGN

    theirs = [versus for versus in found if versus.rival == BEST]
    own = [
        versus
        for versus in found
        if versus.rival not in (BEST, PLAIN_NAME) and not versus.rival.startswith(FOREIGN)
    ]
    return theirs + sorted(own, key=lambda versus: versus.geomean)[:1]


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
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="--svg FILE names another place"
        ) from error


def _shown(outcome: Outcome) -> list[str]:
    """Methods of the charts: ours without fixed lengths, and the best of llama-server."""
    from localspec.bench.server_methods import BEST, FOREIGN

    names = outcome.comparison.methods[1:]
    shown = [name for name in names if "@" not in name and not name.startswith(FOREIGN)]
    shown += [name for name in names if name == BEST]
    return shown or list(names)


def _width() -> int:
    import shutil

    return max(60, min(shutil.get_terminal_size((120, 40)).columns, 160))


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
