"""Everything about the row under the cursor."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.backend.views import FileView, FitReport, ModelRow
from localspec.tui.theme import Look
from localspec.tui.widgets.memory_bar import bar_lines
from localspec.units import format_file_size


class ModelDetails(Widget):
    """Draws one row, and its memory bar once that is known."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._row: ModelRow | None = None
        self._report: FitReport | None = None

    def show(self, row: ModelRow | None, report: FitReport | None = None) -> None:
        self._row, self._report = row, report
        self.border_title = _clipped(row.id, 40) if row is not None else "Details"
        self.refresh()

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        if self._row is None:
            return Text("nothing matches", self.look.muted)
        width = max(20, self.size.width)
        lines = details_lines(self._row, self._report, self.look, width)
        wrapped: list[Text] = []
        for line in lines:
            wrapped += line.wrap(self.app.console, width, overflow="fold") or [Text()]
        return Text("\n").join(wrapped[: max(1, self.size.height)])


def details_lines(row: ModelRow, report: FitReport | None, look: Look, width: int) -> list[Text]:
    """Lines of the panel, the most telling first; not wrapped yet."""
    lines = [_file(file, look, width) for file in row.files]
    if row.draft is not None and row.target.size and row.draft.size:
        share = row.draft.size / row.target.size
        lines.append(Text(f"the draft has {share * 100:.0f} % of the target's size", look.muted))
    if report is not None and report.vocabulary:
        lines.append(Text(report.vocabulary, look.muted))
    if not row.built:
        lines += [
            Text(),
            Text(
                f"The {row.method} drafter is not built yet: runs with the n-gram drafter.",
                look.warn,
            ),
        ]
    lines.append(Text())
    if report is not None:
        lines.append(
            Text(
                f"at {report.choice.n_ctx:,} tokens of context, KV {report.choice.kv_type}",
                look.muted,
            )
        )
        for device in report.devices[:1]:
            lines += bar_lines(device, look, width)
    else:
        lines.append(_labelled("fit", row.fit.text, look))
        if row.fit.reason:
            lines.append(Text(row.fit.reason, look.muted))
    lines.append(Text())
    gain = f"{row.gain:.2f}× plain" if row.gain else "not measured here yet (b)"
    lines.append(_labelled("gain", gain, look))
    if row.reported:
        lines.append(_labelled("reported", row.reported, look))
    licences = ", ".join(dict.fromkeys(file.license for file in row.files if file.license))
    if licences:
        lines.append(_labelled("licence", licences, look))
    if row.note:
        lines += [Text(), Text(row.note, look.text)]
    if row.drafts:
        lines += [Text(), Text("same target: ", look.muted) + Text(", ".join(row.drafts))]
    lines += [Text(), _keys(row, look)]
    return lines


def _file(file: FileView, look: Look, width: int) -> Text:
    if file.size is None and file.guess is None:
        size = "size unknown"
    else:
        about = "≈ " if file.size is None else ""
        size = about + format_file_size(file.size or file.guess or 0)
    state = "on disk" if file.on_disk else "to pull"
    if file.on_disk and file.found_in:
        state = f"in {file.found_in}"
    tail = f" {size:>8}  {state}"
    line = Text(f"{file.role:<7}", look.muted)
    room = max(8, width - 7 - len(tail))
    name = Text(file.name, f"bold {look.text}")
    name.truncate(room, overflow="ellipsis", pad=True)
    line.append_text(name)
    line.append(tail, look.good if file.on_disk else look.muted)
    return line


def _keys(row: ModelRow, look: Look) -> Text:
    keys = [("⏎", "run")]
    if row.here != "all":
        size = f" {format_file_size(row.to_pull)}" if row.to_pull else ""
        keys.append(("p", f"pull{size}"))
    keys += [("f", "fit"), ("b", "bench")]
    line = Text()
    for key, what in keys:
        line.append(f"{key} ", f"bold {look.accent}")
        line.append(f"{what}  ", look.muted)
    return line


def _labelled(name: str, value: str, look: Look) -> Text:
    return Text.assemble((f"{name} ", look.muted), (value, look.text))


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[-width + 1 :]
