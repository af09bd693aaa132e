"""Fit: whether everything goes into memory, and what to change if it does not."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Footer, Static

from localspec.errors import LocalspecError
from localspec.tui.backend.contract import Backend
from localspec.tui.backend.views import FitChoice, FitReport, named
from localspec.tui.messages import RunRequested
from localspec.tui.screens.base import BaseScreen
from localspec.tui.theme import Look
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.fit_controls import FitControls
from localspec.tui.widgets.memory_bar import bar_lines
from localspec.units import GIB

_HELP = """\
**Fit** adds up everything that will be loaded, for each device: weights of target and draft, the \
KV cache of both, and the buffers that computing takes.

- The bar is as long as the memory that is *free now*. What sticks out is underlined.
- **context**: tokens of conversation that are kept. The cache grows with it.
- **KV type**: how exactly the cache is kept. `q8_0` takes half of `f16`.
- **GPU layers**: what is not on the GPU computes on the CPU, several times slower.
- **draft KV type**: the same for the draft's own cache; the text does not depend on it.
- **draft length**: most tokens a drafter may propose in a round.

Figures appear at once, estimated from the header of the file alone. Then llama.cpp itself is \
asked, in a process of its own that loads nothing, and its figures take their place. The last line \
says which are shown. What lies outside all buffers was measured at earlier loads, or is assumed.
"""
_SETTLED_S = 0.4
"""Seconds without a change after which llama.cpp is asked: not for every press of a key."""
_NOTHING = "Choose a pair first: F3 shows the models, f on one of them comes back here."


class ReportFound(Message):
    def __init__(self, asked: FitChoice, report: FitReport) -> None:
        super().__init__()
        self.asked = asked
        self.report = report


class QuantsFound(Message):
    """There are other quantisations of the target."""


class ProbeFailed(Message):
    """llama.cpp could not tell; the estimate stays."""

    def __init__(self, asked: FitChoice, error: LocalspecError) -> None:
        super().__init__()
        self.asked = asked
        self.error = error


class ReportFailed(Message):
    def __init__(self, error: LocalspecError) -> None:
        super().__init__()
        self.error = error


class FitScreen(BaseScreen):
    """One pair; *Launch* takes exactly what is shown."""

    NAME = "fit"
    HELP_TEXT = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,enter", "launch", "Launch", key_display="l"),
        *(
            Binding(str(n), f"apply({n})", "Apply a change", show=False, key_display="1–9")
            for n in range(1, 10)
        ),
        Binding("r", "reset", "Reset"),
        Binding("b", "bench", "Bench"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.model = ""
        self._wanted = FitChoice()
        self._report: FitReport | None = None
        self._asking = ""
        """What is said about llama.cpp's own figures while the estimate is shown."""

    @property
    def report(self) -> FitReport | None:
        return self._report

    def compose(self) -> ComposeResult:
        yield self.top_bar()
        with VerticalScroll(id="fit-body", classes="panel", can_focus=False):
            yield Static(_NOTHING, id="fit-bars")
            yield FitControls(self.look, id="fit-controls")
            yield Static("", id="fit-suggestions")
            yield Static("", id="fit-source")
        yield Activity(self.look, id="activity")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#fit-body").border_title = "Fit"
        self.query_one(FitControls).focus()

    def open_model(self, model: str) -> None:
        """Show a pair with what the program would choose."""
        if model == self.model and self._report is not None:
            self.query_one(FitControls).focus()
            return
        self.model, self._report = model, None
        self._wanted = FitChoice()
        self.query_one("#fit-body").border_title = f"Fit: {model}"
        self.query_one("#fit-bars", Static).update("")
        self.query_one("#fit-suggestions", Static).update("")
        self.query_one(Activity).say(f"reading the header of {model}")
        self.query_one(FitControls).focus()
        # What is still being asked is about another pair.
        self.workers.cancel_group(self, "probe")
        self._ask()
        self._find_quants()

    def show_look(self, look: Look) -> None:
        self.query_one(FitControls).show_look(look)
        self.query_one(Activity).show_look(look)
        self._show()

    def on_resize(self) -> None:
        self._show()

    # --- asking ---

    @work(group="fit", exclusive=True)
    async def _ask(self) -> None:
        wanted, model = self._wanted, self.model
        try:
            report = await asyncio.to_thread(self.backend.fit, model, wanted)
        except LocalspecError as error:
            self.post_message(ReportFailed(error))
        else:
            self.post_message(ReportFound(wanted, report))

    @work(group="probe", exclusive=True)
    async def _probe(self) -> None:
        """llama.cpp's own figures, when the keys have come to rest."""
        wanted, model = self._wanted, self.model
        await asyncio.sleep(_SETTLED_S)
        try:
            report = await asyncio.to_thread(self.backend.probe, model, wanted)
        except LocalspecError as error:
            self.post_message(ProbeFailed(wanted, error))
        else:
            self.post_message(ReportFound(wanted, report))

    @work(group="quants", exclusive=True)
    async def _find_quants(self) -> None:
        if await asyncio.to_thread(self.backend.find_quants, self.model):
            self.post_message(QuantsFound())

    @on(QuantsFound)
    def _quants_found(self) -> None:
        self._ask()

    @on(ReportFound)
    def _report_found(self, message: ReportFound) -> None:
        if message.asked != self._wanted:
            return  # another key was pressed meanwhile
        self._report = message.report
        self._asking = ""
        self.query_one(Activity).clear()
        if not message.report.probed:
            self._asking = "llama.cpp is being asked"
            self._probe()
        self.query_one(FitControls).show(message.report)
        self._show()

    @on(ProbeFailed)
    def _probe_failed(self, message: ProbeFailed) -> None:
        if message.asked == self._wanted:
            self._asking = message.error.message
            self._show()

    @on(ReportFailed)
    def _report_failed(self, message: ReportFailed) -> None:
        self.query_one(Activity).say(message.error.message, message.error.hint, level="bad")

    @on(FitControls.Changed)
    def _changed(self, event: FitControls.Changed) -> None:
        self._wanted = event.choice
        self._ask()

    # --- keys ---

    def action_launch(self) -> None:
        report = self._report
        if report is None:
            return
        if not report.fits:
            self.query_one(Activity).say(
                "this does not fit", "1–9 applies a change; or lower the context", level="bad"
            )
            return
        self.post_message(RunRequested(named(self.model, report.choice.quant), report.choice))

    def action_apply(self, number: int) -> None:
        report = self._report
        if report is None or number > len(report.suggestions):
            return
        choice = report.suggestions[number - 1].choice
        if choice is None:
            self.query_one(Activity).say("that change is made outside of this screen")
            return
        self._wanted = choice
        self._ask()

    def action_reset(self) -> None:
        if self.model:
            self._wanted = FitChoice()
            self._ask()

    def action_bench(self) -> None:
        if self.model:
            self.go("bench", self.model)

    def action_back(self) -> None:
        self.go("models")

    # --- showing ---

    def _show(self) -> None:
        report = self._report
        if report is None:
            return
        look = self.look
        width = max(20, self.query_one("#fit-body").content_size.width - 2)
        lines: list[Text] = []
        for device in report.devices:
            title = Text.assemble((device.name, f"bold {look.text}"))
            title.append(f"  {device.total / GIB:.1f} GiB", look.muted)
            lines += [title, *bar_lines(device, look, width), Text()]
        self.query_one("#fit-bars", Static).update(Text("\n").join(lines))
        body = self.query_one("#fit-body")
        body.border_subtitle = "fits" if report.fits else "does not fit"
        body.set_class(not report.fits, "short")
        self.query_one("#fit-suggestions", Static).update(suggestion_text(report, look, width))
        source = f"{report.source}; {self._asking}" if self._asking else report.source
        notes = [*report.notes, f"figures: {source}"]
        self.query_one("#fit-source", Static).update(Text("\n".join(notes), look.muted))


def suggestion_text(report: FitReport, look: Look, width: int) -> Text:
    """Numbered lines, each with its new total."""
    suggestions = report.suggestions
    if not suggestions:
        return Text("nothing frees more memory", look.muted)
    title = "To free memory" if report.fits else f"To reach {report.choice.n_ctx:,} tokens"
    lines = [Text(title, f"bold {look.text}")]
    widest = 4 if all(item.fits for item in suggestions) else 8
    for number, item in enumerate(suggestions[:9], 1):
        sign = "✓" if item.fits else "✗"
        verdict = "fits" if item.fits else "too much"
        tail = f" {item.required / GIB:6.1f} GiB {sign} {verdict:<{widest}}"
        line = Text.assemble((f" {number}  ", f"bold {look.accent}"))
        words = Text(item.text, look.text)
        room = max(10, width - 4 - len(tail))
        words.truncate(room - 1, overflow="ellipsis")
        line.append_text(words)
        line.append(" " + "·" * max(0, room - words.cell_len - 1), look.faint)
        line.append(tail, look.good if item.fits else look.bad)
        lines.append(line)
    return Text("\n").join(lines)
