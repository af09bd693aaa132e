"""Models: the catalogue and what is on disk, what fits here, and what it wins."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import DataTable, Footer, Input

from localspec.errors import LocalspecError
from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import (
    Download,
    FitBrief,
    FitChoice,
    FitReport,
    MachineView,
    ModelRow,
)
from localspec.tui.messages import RunRequested
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.model_details import ModelDetails
from localspec.tui.widgets.model_table import ModelTable
from localspec.tui.widgets.welcome import Welcome
from localspec.units import format_file_size

_HELP = """\
**Models** shows every pair of the catalogue and the model files on this machine.

- **METHOD**: who drafts. `draft` a small model of the same vocabulary, `ngram` repetition in the \
text itself; with `*` a drafter that is not built yet, n-grams run in its place.
- **FITS**: whether weights, cache and buffers of all models go into this machine's memory. `✓` \
with the largest context that fits, `~` with little context or by file size only, `✗` with what is \
missing.
- **DISK**: `●` all files here, `◐` some, `○` none.
- **GAIN**: speed-up over plain decoding that *this machine* measured; `b` measures it.

Figures under *reported* are other people's, from other machines.
"""


class RowsFound(Message):
    def __init__(self, rows: list[ModelRow]) -> None:
        super().__init__()
        self.rows = rows


class FitFound(Message):
    def __init__(self, model: str, fit: FitBrief, report: FitReport | None = None) -> None:
        super().__init__()
        self.model = model
        self.fit = fit
        self.report = report


class Failed(Message):
    def __init__(self, error: LocalspecError) -> None:
        super().__init__()
        self.error = error


class Removed(Message):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ModelsScreen(BaseScreen):
    """Where one starts."""

    NAME = "models"
    HELP_TEXT = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pull", "Pull"),
        Binding("f", "fit", "Fit"),
        Binding("b", "bench", "Bench"),
        Binding("d", "downloads", "Downloads", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("delete", "delete", "Delete"),
        Binding("y", "confirm", "Yes, delete", show=False),
        Binding("escape", "back", "Back", show=False),
        Binding("f9", "reload", "Look again", show=False),
    ]

    def __init__(self, backend: Backend, *, welcome: bool) -> None:
        super().__init__(backend)
        self._welcome = welcome
        self._reports: dict[str, FitReport] = {}
        self._to_delete = ""
        self._ended: set[str] = set()

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        if self._welcome:
            yield Welcome(self.look)
        with Horizontal(id="models-body"):
            with Vertical(id="models-main", classes="panel"):
                yield Input(placeholder="filter", id="filter", compact=True)
                yield ModelTable(self.look, id="models")
            yield ModelDetails(self.look, id="details")
        yield Activity(self.look, id="activity")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#models-main").border_title = "Models"
        self.query_one(ModelTable).focus()
        self.action_reload()

    def show_look(self, look: Look) -> None:
        table = self.query_one(ModelTable)
        table.look = look
        table.rebuild()
        self.query_one(ModelDetails).show_look(look)
        self.query_one(Activity).show_look(look)
        for welcome in self.query(Welcome):
            welcome.show_look(look)

    def show_machine(self, machine: MachineView) -> None:
        super().show_machine(machine)
        for welcome in self.query(Welcome):
            welcome.show(machine)

    def show_downloads(self, downloads: tuple[Download, ...]) -> None:
        super().show_downloads(downloads)
        ended = {item.id for item in downloads if item.state == "done"}
        if ended - self._ended:
            self.action_reload()
        self._ended = ended

    # --- what is there ---

    def action_reload(self) -> None:
        self._find_rows()

    @work(group="rows", exclusive=True)
    async def _find_rows(self) -> None:
        try:
            rows = await asyncio.to_thread(self.backend.models)
        except LocalspecError as error:
            self.post_message(Failed(error))
            return
        self.post_message(RowsFound(rows))

    @on(RowsFound)
    def _rows_found(self, message: RowsFound) -> None:
        table = self.query_one(ModelTable)
        table.show(message.rows)
        self._reports.clear()
        self._show_details()
        self._find_fits([row.id for row in message.rows])

    @work(group="fits", exclusive=True)
    async def _find_fits(self, models: list[str]) -> None:
        """One after the other: each takes a moment, and the table fills in meanwhile."""
        for model in models:
            fit = await asyncio.to_thread(self.backend.fit_brief, model)
            self.post_message(FitFound(model, fit))

    @work(group="detail", exclusive=True)
    async def _find_report(self, model: str) -> None:
        await asyncio.sleep(0.15)  # whoever holds the arrow key down wants no report yet
        try:
            report = await asyncio.to_thread(self.backend.fit, model, FitChoice())
        except LocalspecError:
            # The table says why already.
            return
        # Whoever quits at once takes the table away meanwhile.
        for table in self.query(ModelTable):
            row = table.model(model)
            if row is not None:
                self.post_message(FitFound(model, row.fit, report))

    @on(FitFound)
    def _fit_found(self, message: FitFound) -> None:
        table = self.query_one(ModelTable)
        if message.report is not None:
            self._reports[message.model] = message.report
        else:
            table.show_fit(message.model, message.fit)
        chosen = table.chosen
        if chosen is not None and chosen.id == message.model:
            self._show_details()

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        self.query_one(Activity).say(message.error.message, message.error.hint, level="bad")

    @on(DataTable.RowHighlighted)
    def _highlighted(self) -> None:
        self._to_delete = ""
        self._show_details()
        row = self.query_one(ModelTable).chosen
        if row is not None and row.here == "all" and row.id not in self._reports:
            self._find_report(row.id)

    @on(DataTable.HeaderSelected)
    def _header_clicked(self, event: DataTable.HeaderSelected) -> None:
        self.query_one(ModelTable).sort_by(event.column_key.value or "")
        self._show_order()

    @on(DataTable.RowSelected)
    def _row_selected(self) -> None:
        self.action_run()

    def _show_details(self) -> None:
        row = self.query_one(ModelTable).chosen
        self.query_one(ModelDetails).show(row, self._reports.get(row.id) if row else None)

    # --- keys ---

    def action_run(self) -> None:
        row = self.query_one(ModelTable).chosen
        if row is not None:
            self.close_welcome()
            self.post_message(RunRequested(row.id))

    def action_pull(self) -> None:
        row = self.query_one(ModelTable).chosen
        if row is None:
            return
        if row.here == "all":
            self.query_one(Activity).say(f"{row.id} is here already", "⏎ runs it")
            return
        self.backend.downloads.start(row.id)
        self.query_one(Activity).say(f"pulling {row.id}", "d shows the downloads")

    def action_fit(self) -> None:
        self._go_with("fit")

    def action_bench(self) -> None:
        self._go_with("bench")

    def action_downloads(self) -> None:
        self.go("downloads")

    def action_filter(self) -> None:
        self.query_one("#filter", Input).focus()

    def action_sort(self) -> None:
        self.query_one(ModelTable).sort_next()
        self._show_order()

    def action_delete(self) -> None:
        row = self.query_one(ModelTable).chosen
        if row is None:
            return
        if row.here == "none":
            self.query_one(Activity).say(f"nothing of {row.id} is on this machine")
            return
        loaded = self.backend.loaded
        if loaded is not None and loaded.id == row.id:
            self.query_one(Activity).say(
                f"{row.id} is in memory and needs its files", "run another pair first", level="warn"
            )
            return
        size = format_file_size(sum(f.size or 0 for f in row.files if f.on_disk))
        self._to_delete = row.id
        self.query_one(Activity).say(
            f"delete the files of {row.id} ({size})?",
            "y deletes, any other key keeps",
            level="warn",
        )

    def action_confirm(self) -> None:
        model, self._to_delete = self._to_delete, ""
        if model:
            self._remove(model)

    @work(group="remove")
    async def _remove(self, model: str) -> None:
        try:
            text = await asyncio.to_thread(self.backend.remove, model)
        except LocalspecError as error:
            self.post_message(Failed(error))
        else:
            self.post_message(Removed(text))

    @on(Removed)
    def _removed(self, message: Removed) -> None:
        self.query_one(Activity).say(message.text)
        self.action_reload()

    def action_back(self) -> None:
        """Escape: leave the question, the filter, the welcome, in this order."""
        field = self.query_one("#filter", Input)
        if self._to_delete:
            self._to_delete = ""
            self.query_one(Activity).clear()
        elif field.has_focus or field.value:
            field.value = ""
            self.query_one(ModelTable).focus()
        else:
            self.close_welcome()
            self.query_one(Activity).clear()

    def close_welcome(self) -> None:
        for welcome in self.query(Welcome):
            welcome.remove()
        self._welcome = False

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.query_one(ModelTable).filter(event.value)
        self._show_details()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one(ModelTable).focus()

    def _go_with(self, name: str) -> None:
        row = self.query_one(ModelTable).chosen
        if row is not None:
            self.go(name, row.id)

    def _show_order(self) -> None:
        order = self.query_one(ModelTable).order
        panel = self.query_one("#models-main")
        panel.border_subtitle = f"by {order.lower()}" if order else ""
