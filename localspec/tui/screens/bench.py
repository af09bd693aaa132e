"""Bench: every drafter against plain decoding, filling in as it is measured."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Static

from localspec.errors import LocalspecError
from localspec.tui.backend.contract import Backend, Bench
from localspec.tui.backend.views import BenchEntry, BenchView, FitChoice
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.bench_chart import BenchChart
from localspec.tui.widgets.bench_choice import BenchChoicePanel

_HELP = """\
**Bench** answers the same prompts with every method and compares their speed with plain decoding.

- Methods take turns on each prompt, so that a machine that warms up slows all of them alike.
- Every answer starts with empty caches: a prompt that was seen before would flatter the n-gram \
drafter.
- **speed-up**: tokens per second over plain decoding's on the same prompt; the mean is geometric.
- **ACC.**: draft tokens that the target kept; **/ROUND**: tokens of each target pass.
- **SAME**: answers that are plain decoding's to the last token. Others part from it where \
two tokens are nearly tied and a wider pass rounds them differently.
- Results are kept for this machine and shown as GAIN on the Models screen.
"""
_NOTHING = "Choose a pair first: F3 shows the models, b on one of them comes back here."


class Moved(Message):
    def __init__(self, view: BenchView) -> None:
        super().__init__()
        self.view = view


class Ended(Message):
    def __init__(self, error: LocalspecError | None) -> None:
        super().__init__()
        self.error = error


class HistoryFound(Message):
    def __init__(self, entries: tuple[BenchEntry, ...], has_draft: bool) -> None:
        super().__init__()
        self.entries = entries
        self.has_draft = has_draft


class BenchScreen(BaseScreen):
    """One pair; `r` runs, escape stops and keeps what was measured."""

    NAME = "bench"
    HELP_TEXT = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Run"),
        Binding("escape", "stop", "Stop"),
        Binding("f", "fit", "Fit"),
        Binding("c", "choose", "Choose"),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.model = ""
        self._bench: Bench | None = None
        self._entries: tuple[BenchEntry, ...] = ()
        self._view: BenchView | None = None

    @property
    def is_measuring(self) -> bool:
        return self._bench is not None

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        with Horizontal(id="bench-body"):
            yield BenchChoicePanel(self.backend.workloads(), id="bench-choice")
            with VerticalScroll(id="bench-results", classes="panel", can_focus=False):
                yield Static(_NOTHING, id="bench-words")
                yield DataTable[Text](id="bench-table", cursor_type="none", show_cursor=False)
                yield BenchChart(self.look, id="bench-chart")
                yield Static("", id="bench-history")
        yield Activity(self.look, id="activity")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#bench-results").border_title = "Results"
        self.query_one("#bench-table").display = False
        self.query_one("#bench-methods").focus()

    def open_model(self, model: str) -> None:
        """Get ready to measure a pair."""
        if model == self.model or self.is_measuring:
            return
        self.model, self._view = model, None
        self.query_one("#bench-results").border_title = f"Results: {model}"
        self.query_one("#bench-words", Static).update("r runs the benchmark.")
        self.query_one("#bench-table").display = False
        self.query_one(BenchChart).show(())
        self._find_history()

    def show_look(self, look: Look) -> None:
        self.query_one(BenchChart).show_look(look)
        self.query_one(Activity).show_look(look)
        self._show_history()
        if self._view is not None:
            self._show(self._view)

    # --- running ---

    def action_run(self) -> None:
        activity = self.query_one(Activity)
        if self.is_measuring:
            activity.say("a benchmark is running", "esc stops it", level="warn")
            return
        if not self.model:
            activity.say("no pair is chosen", "F3 shows the models; b on one comes back here")
            return
        try:
            what = self.query_one(BenchChoicePanel).choice()
        except LocalspecError as error:
            activity.say(error.message, error.hint, level="bad")
            return
        self._bench = self.backend.bench(self.model, FitChoice(), what)
        activity.progress("getting ready", 0.0)
        self._measure(self._bench)

    @work(group="bench", exclusive=True)
    async def _measure(self, bench: Bench) -> None:
        error: LocalspecError | None = None
        try:
            view = await bench.run(self._tell)
            self.post_message(Moved(view))
        except LocalspecError as failure:
            error = failure
        self.post_message(Ended(error))

    def _tell(self, view: BenchView) -> None:
        self.post_message(Moved(view))

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        view = message.view
        self._view = view
        if not view.finished:
            share = view.done / view.total if view.total else 0.0
            count = f"{view.done} of {view.total}" if view.total else ""
            self.query_one(Activity).progress(view.now, share, f"{count}  esc stops")
        self._show(view)

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        self._bench = None
        activity = self.query_one(Activity)
        if message.error is not None:
            activity.say(message.error.message, message.error.hint, level="bad")
        else:
            activity.say("done" if self._view and self._view.now == "done" else "stopped")
        self._find_history()

    def action_stop(self) -> None:
        if self._bench is not None:
            self._bench.cancel()
            self.query_one(Activity).say("stopping after the next token")
        else:
            self.go("models")

    def action_fit(self) -> None:
        if self.model:
            self.go("fit", self.model)

    def action_choose(self) -> None:
        """Where both do not go beside each other, the choice comes back over the results."""
        self.remove_class("has-results")
        self.query_one("#bench-methods").focus()

    # --- history ---

    @work(group="history", exclusive=True)
    async def _find_history(self) -> None:
        model = self.model
        entries = await asyncio.to_thread(self.backend.bench_history, model)
        has_draft = await asyncio.to_thread(self.backend.has_draft, model)
        self.post_message(HistoryFound(entries, has_draft))

    @on(HistoryFound)
    def _history_found(self, message: HistoryFound) -> None:
        self._entries = message.entries
        self.query_one(BenchChoicePanel).set_draft(has_draft=message.has_draft)
        self._show_history()

    def _show_history(self) -> None:
        look = self.look
        if not self._entries:
            self.query_one("#bench-history", Static).update("")
            return
        lines = [Text(), Text("Measured before", f"bold {look.text}")]
        for entry in self._entries[:8]:
            line = Text.assemble((f" {entry.when[:16].replace('T', ' ')}  ", look.muted))
            for method, speedup in entry.speedups:
                if method != "plain":
                    line.append(f"{method} ", look.muted)
                    line.append(f"{speedup:.2f}×  ", f"bold {look.accent}")
            line.append(entry.settings, look.muted)
            lines.append(line)
        self.query_one("#bench-history", Static).update(Text("\n").join(lines))

    # --- showing ---

    def _show(self, view: BenchView) -> None:
        look = self.look
        words = self.query_one("#bench-words", Static)
        if view.sentence:
            words.update(Text(view.sentence, f"bold {look.text}"))
        else:
            words.update(Text("" if view.rows else view.now, look.muted))
        table = self.query_one("#bench-table", DataTable)
        table.display = bool(view.rows)
        self.set_class(bool(view.rows), "has-results")
        if [str(column.label) for column in table.ordered_columns] != list(view.columns):
            table.clear(columns=True)
            for name in view.columns:
                table.add_column(name, key=name)
        table.clear()
        for row in view.rows:
            first, *others = row
            cells = [Text(first, f"bold {look.text}")]
            cells += [Text(value, _colour(value, look), justify="right") for value in others]
            table.add_row(*cells)
        self.query_one(BenchChart).show(view.bars)


def _colour(value: str, look: Look) -> str:
    """Speed-ups below plain decoding in another colour; the figure itself says the same."""
    if not value.endswith("×"):
        return look.text
    return look.accent if float(value[:-1]) >= 1.0 else look.bad
