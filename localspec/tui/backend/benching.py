"""Benchmarks for the bench screen, on the engine that the chat uses too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from localspec import __version__
from localspec.paths import Paths
from localspec.tui.backend.views import BenchBar, BenchChoice, BenchEntry, BenchView, FitChoice

if TYPE_CHECKING:
    from localspec.bench.runner import BenchRun, Progress
    from localspec.bench.workloads import Workload
    from localspec.tui.backend.contract import Backend
    from localspec.tui.backend.engine_room import EngineRoom


_FIGURES = {
    "TOK/S": "TOK/S",
    "ACCEPTED": "ACC.",
    "PER ROUND": "/ROUND",
    "IDENTICAL": "SAME",
}
"""Columns of the summary table that the screen shows too, and their names there."""


class BenchRunView:
    """One benchmark as it fills in; fulfils `contract.Bench`."""

    def __init__(
        self,
        backend: Backend,
        engine: EngineRoom,
        paths: Paths,
        model: str,
        choice: FitChoice,
        what: BenchChoice,
    ) -> None:
        self._backend = backend
        self._engine = engine
        self._paths = paths
        self._model = model
        self._choice = choice
        self._what = what
        self._run: BenchRun | None = None
        self._cancelled = False
        self._now = "loading"

    def cancel(self) -> None:
        self._cancelled = True
        if self._run is not None:
            self._run.cancel()

    async def run(self, on_change: Callable[[BenchView], None]) -> BenchView:
        """Raises what loading and answering raise."""
        from localspec.bench.contestants import EngineContestant
        from localspec.bench.methods import choose_methods
        from localspec.bench.runner import BenchRun, Plan, Running

        what = self._what
        on_change(BenchView(0, 0, "loading the models"))
        loaded = await self._backend.load(self._model, self._choice, "auto", lambda event: None)
        names = what.workloads or tuple(name for name, _ in workload_titles())
        workloads = _workloads(names, what.prompts)
        plan = Plan(workloads, max_tokens=what.max_tokens, repeats=what.repeats)
        methods = choose_methods(what.methods, has_draft=loaded.has_draft)
        client = self._engine.client()

        def tell(event: Progress) -> None:
            if isinstance(event, Running):
                self._now = f"{event.method} · {event.workload or event.phase}"
            on_change(self._view(run, finished=False))

        run = BenchRun(plan, [EngineContestant(client, method) for method in methods], tell)
        self._run = run
        if self._cancelled:
            run.cancel()
        await run.run()
        if not run.cancelled and run.samples:
            self._remember(run, workloads)
        self._now = "stopped" if run.cancelled else "done"
        return self._view(run, finished=True)

    def _view(self, run: BenchRun, *, finished: bool) -> BenchView:
        from localspec.bench.bars import bar_groups
        from localspec.bench.compare import compare
        from localspec.bench.report import sentence
        from localspec.bench.tables import summary_table, workload_table

        cold = [sample for sample in run.samples if not sample.warm]
        if not cold:
            return BenchView(len(run.samples), run.total, self._now, finished=finished)
        comparison = compare(cold)
        speed = workload_table(comparison)
        figures = summary_table(comparison)
        rates = {row[0]: row for row in figures.rows}
        places = [figures.columns.index(name) for name in _FIGURES]
        rows = tuple((*row, *(rates[row[0]][place] for place in places)) for row in speed.rows)
        bars = tuple(
            BenchBar(group.label, bar.method, bar.value, bar.low, bar.high)
            for group in bar_groups(comparison)
            for bar in group.bars
        )
        return BenchView(
            done=len(run.samples),
            total=run.total,
            now=self._now,
            columns=(*speed.columns, *_FIGURES.values()),
            rows=rows,
            bars=bars,
            sentence=sentence(comparison) if finished else "",
            finished=finished,
        )

    def _remember(self, run: BenchRun, workloads: tuple[Workload, ...]) -> None:
        from localspec.bench.compare import compare
        from localspec.bench.history import History, remembered
        from localspec.bench.machine import this_machine

        result = remembered(
            compare([sample for sample in run.samples if not sample.warm]),
            model=self._model,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            settings=self._settings(),
            workloads={workload.name: workload.version for workload in workloads},
        )
        History(self._paths, this_machine()).add(result)

    def _settings(self) -> dict[str, Any]:
        return {
            "n_ctx": self._choice.n_ctx,
            "kv_type": self._choice.kv_type,
            "max_tokens": self._what.max_tokens,
            "prompts": self._what.prompts,
            "repeats": self._what.repeats,
        }


def workload_titles() -> tuple[tuple[str, str], ...]:
    """Name and title of every workload that ships."""
    from localspec.bench.workloads import load_workloads

    return tuple((workload.name, workload.title) for workload in load_workloads())


def bench_history(model: str, paths: Paths) -> tuple[BenchEntry, ...]:
    """Results of a pair on this machine, newest first."""
    from localspec.bench.history import History
    from localspec.bench.machine import this_machine

    found = [item for item in History(paths, this_machine()).load() if item.model == model]
    return tuple(
        BenchEntry(
            item.when,
            tuple(item.speedups.items()),
            ", ".join(item.workloads),
        )
        for item in reversed(found)
    )


def _workloads(names: tuple[str, ...], prompts: int) -> tuple[Workload, ...]:
    from localspec.bench.workloads import load_workloads

    return tuple(workload.first(prompts) for workload in load_workloads(names))
