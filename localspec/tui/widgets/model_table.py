"""All pairs in a virtual table: filtered as one types, sorted by any column."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from localspec.tui.backend.views import FitBrief, ModelRow
from localspec.tui.theme import Look
from localspec.units import format_file_size

_OTHER_COLUMNS = 50
"""Cells that all columns but the first take, gaps included."""

COLUMNS = ("PAIR", "METHOD", "SIZE", "FITS", "DISK", "GAIN")
_WIDE_COLUMNS = (("TARGET", 106, 32), ("LICENCE", 122, 16))
"""Columns that are shown from a width on, and the cells that each takes, its gap included."""
_DISK = {"all": "●", "part": "◐", "none": "○"}
_VERDICTS = {"fits": 0, "tight": 1, "unknown": 2, "short": 3}


class ModelTable(DataTable[Text]):
    """Rows by id. What is shown are the rows that match the filter, in the chosen order."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Run")]

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False, show_header=True)
        self.look = look
        self._models: dict[str, ModelRow] = {}
        self._filter = ""
        self._order = ""
        """Column sorted by; empty keeps the catalogue's order."""
        self._is_reversed = False
        self._width = 0

    def on_resize(self) -> None:
        """Long names take what room there is."""
        if self.size.width != self._width:
            self._width = self.size.width
            # Columns keep the width of the widest cell they ever had.
            chosen = self.chosen
            self.clear(columns=True)
            self.rebuild(chosen)

    def on_mount(self) -> None:
        """Columns first: rows follow when they are known."""
        self._set_columns()

    def _set_columns(self) -> None:
        """Where there is room, more is told."""
        more = [name for name, width, _ in _WIDE_COLUMNS if self.size.width >= width]
        wanted = [COLUMNS[0], *more, *COLUMNS[1:]]
        if [column.value for column in self.columns] != wanted:
            self.clear(columns=True)
            for name in wanted:
                self.add_column(name, key=name)

    @property
    def chosen(self) -> ModelRow | None:
        """The row under the cursor."""
        if not self.row_count:
            return None
        key = self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value
        return self._models.get(key or "")

    @property
    def shown_ids(self) -> list[str]:
        """From top to bottom."""
        return [row.key.value or "" for row in self.ordered_rows]

    @property
    def order(self) -> str:
        return self._order

    def model(self, model: str) -> ModelRow | None:
        return self._models.get(model)

    def show(self, rows: list[ModelRow]) -> None:
        """Replace all rows; fits that are known already stay."""
        known = {row.id: row.fit for row in self._models.values()}
        self._models = {}
        for row in rows:
            if row.id in known and row.fit.text == "…":
                row = _with_fit(row, known[row.id])
            self._models[row.id] = row
        self.rebuild()

    def show_fit(self, model: str, fit: FitBrief) -> None:
        row = self._models.get(model)
        if row is None:
            return
        self._models[model] = _with_fit(row, fit)
        if model in self.rows:
            self.update_cell(model, "FITS", self._fit(fit), update_width=True)

    def filter(self, words: str) -> None:
        self._filter = words.lower()
        self.rebuild()

    def sort_next(self) -> str:
        """Sort by the next column; the one after the last is the catalogue's order."""
        places = ["", *COLUMNS]
        self.sort_by(places[(places.index(self._order) + 1) % len(places)])
        return self._order

    def sort_by(self, column: str) -> None:
        """The same column again turns the order round."""
        self._is_reversed = not self._is_reversed if column == self._order and column else False
        self._order = column
        self.rebuild()

    def rebuild(self, chosen: ModelRow | None = None) -> None:
        """Draw all rows again; the cursor stays on its model, or goes to `chosen`."""
        chosen = chosen or self.chosen
        self._set_columns()
        self.clear()
        words = self._filter.split()
        rows = [row for row in self._models.values() if _matches(row, words)]
        if self._order:
            rows.sort(key=lambda row: _sort_key(row, self._order), reverse=self._is_reversed)
        for row in rows:
            cells = self._cells(row)
            self.add_row(*(cells[column.value or ""] for column in self.columns), key=row.id)
        if chosen is not None and chosen.id in self.rows:
            self.move_cursor(row=self.get_row_index(chosen.id), animate=False)

    def _cells(self, row: ModelRow) -> dict[str, Text]:
        """A cell for every column there can be."""
        look = self.look
        likely = row.likely_size
        size = "?" if likely is None else format_file_size(likely)
        if row.size is None and likely is not None:
            size = f"≈ {size}"
        disk_colour = {"all": look.good, "part": look.warn, "none": look.muted}[row.here]
        gain = f"{row.gain:.2f}×" if row.gain else "–"
        others = sum(cells for _, width, cells in _WIDE_COLUMNS if self.size.width >= width)
        room = max(18, self.size.width - _OTHER_COLUMNS - others)
        name = shortened(row.id, room)
        licence = next((file.license for file in row.files if file.license), "–")
        known = look.text if row.size is not None else look.muted
        return {
            "PAIR": Text(name, look.text),
            "TARGET": Text(shortened(row.target.name, 30), look.muted),
            "LICENCE": Text(licence, look.muted),
            "METHOD": Text(row.method if row.built else f"{row.method} *", look.muted),
            "SIZE": Text(size, known, justify="right"),
            "FITS": self._fit(row.fit),
            "DISK": Text(_DISK[row.here], disk_colour),
            "GAIN": Text(gain, f"bold {look.accent}" if row.gain else look.muted, justify="right"),
        }

    def _fit(self, fit: FitBrief) -> Text:
        look = self.look
        colours = {"fits": look.good, "tight": look.warn, "short": look.bad}
        return Text(fit.text, colours.get(fit.verdict, look.muted))


def shortened(model: str, room: int) -> str:
    """The end of a path says what it is, of a pair's id the beginning does."""
    if len(model) <= room:
        return model
    return f"…{model[1 - room :]}" if model.endswith(".gguf") else f"{model[: room - 1]}…"


def _with_fit(row: ModelRow, fit: FitBrief) -> ModelRow:
    from dataclasses import replace

    return replace(row, fit=fit)


def _matches(row: ModelRow, words: list[str]) -> bool:
    whole = " ".join((row.id, row.method, row.note, *(file.name for file in row.files))).lower()
    return all(word in whole for word in words)


def _sort_key(row: ModelRow, column: str) -> tuple[float, str]:
    """What is better comes first; what is unknown comes last."""
    match column:
        case "TARGET":
            return 0.0, row.target.name.lower()
        case "LICENCE":
            return 0.0, f"{row.target.license.lower()} {row.id}"
        case "METHOD":
            return 0.0, f"{row.method} {row.id}"
        case "SIZE":
            return (float("inf") if row.likely_size is None else float(row.likely_size)), row.id
        case "FITS":
            return float(_VERDICTS[row.fit.verdict]), row.id
        case "DISK":
            return float(("all", "part", "none").index(row.here)), row.id
        case "GAIN":
            return -(row.gain or 0.0), row.id
    return 0.0, row.id.lower()
