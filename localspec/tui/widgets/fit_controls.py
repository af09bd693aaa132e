"""What can be changed about loading a pair, one line each, with the arrow keys or the mouse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from localspec.tui.backend.views import FitChoice, FitReport
from localspec.tui.theme import Look
from localspec.tui.widgets.memory_bar import short_size

_CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
_NAME_WIDTH = 16
_VALUE_WIDTH = 18
_Q8_SAVES = 1 - 34 / 64
"""Of an f16 cache: a block of 32 values takes 34 bytes as q8_0, 64 as f16."""


@dataclass(frozen=True, slots=True)
class Control:
    """One line: its values in order, and how one of them changes the choice."""

    name: str
    values: tuple[str, ...]
    index: int
    hint: str
    change: Callable[[FitChoice, int], FitChoice]
    """From a choice and the index of a value to the changed choice."""


def controls(report: FitReport) -> list[Control]:
    """The lines that make sense for a pair, the present values chosen."""
    choice = report.choice
    found = [_context(report)]
    kinds = report.kv_types
    found.append(
        Control(
            "KV type",
            kinds,
            kinds.index(choice.kv_type) if choice.kv_type in kinds else 0,
            _kv_hint(report, "target", choice.kv_type),
            lambda old, index: replace(old, kv_type=kinds[index]),
        )
    )
    if report.n_layers:
        layers = report.n_layers
        now = layers if choice.gpu_layers is None else choice.gpu_layers
        found.append(
            Control(
                "GPU layers",
                tuple(f"{count} / {layers}" for count in range(layers + 1)),
                now,
                "layers elsewhere run on the CPU: slow" if now < layers else "all on the GPU",
                lambda old, index: replace(old, gpu_layers=None if index == layers else index),
            )
        )
    if report.draft_name:
        found.append(
            Control(
                "draft",
                ("none", report.draft_name),
                int(choice.use_draft),
                f"without it: {_size(report, 'draft')} more"
                if choice.use_draft
                else "the n-gram drafter runs in its place",
                lambda old, index: replace(old, use_draft=bool(index)),
            )
        )
        if choice.use_draft:
            found.append(
                Control(
                    "draft KV type",
                    kinds,
                    kinds.index(choice.draft_kv_type) if choice.draft_kv_type in kinds else 0,
                    _kv_hint(report, "draft", choice.draft_kv_type),
                    lambda old, index: replace(old, draft_kv_type=kinds[index]),
                )
            )
    if len(report.quants) > 1:
        quants = report.quants
        found.append(
            Control(
                "quantisation",
                quants,
                quants.index(choice.quant) if choice.quant in quants else 0,
                "" if not choice.quant else "another file, to be pulled",
                lambda old, index: replace(old, quant=quants[index] if index else ""),
            )
        )
    most = 32
    length = min(most, choice.draft_max or 16)
    found.append(
        Control(
            "draft length",
            tuple(str(count) for count in range(1, most + 1)),
            length - 1,
            "most draft tokens in a round",
            lambda old, index: replace(old, draft_max=index + 1),
        )
    )
    return found


def _kv_hint(report: FitReport, model: str, kind: str) -> str:
    """What the next smaller type would free, when the cache is of the exact one."""
    if kind != "f16":
        return ""
    cost = "nearly no loss" if model == "target" else "same text"
    return f"q8_0 frees {_size(report, model, 'kv', _Q8_SAVES)}: {cost}"


def _size(report: FitReport, model: str, kind: str = "", share: float = 1.0) -> str:
    parts = [part for device in report.devices for part in device.parts if part.model == model]
    return short_size(int(share * sum(p.bytes for p in parts if kind in ("", p.kind))))


def _context(report: FitReport) -> Control:
    now = report.choice.n_ctx
    sizes = {size for size in _CONTEXTS if size <= report.n_ctx_train} | {now}
    if report.max_ctx:
        sizes.add(report.max_ctx)
    ordered = sorted(sizes)
    largest = f"largest that fits: {report.max_ctx:,}" if report.max_ctx else "none fits"
    return Control(
        "context",
        tuple(f"{size:,}" for size in ordered),
        ordered.index(now),
        largest,
        lambda old, index: replace(old, n_ctx=ordered[index]),
    )


class FitControls(Widget, can_focus=True):
    """Draws the lines; says `Changed` with every change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("left", "turn(-1)", "Less", show=False),
        Binding("right", "turn(1)", "More", show=False),
    ]

    class Changed(Message):
        def __init__(self, choice: FitChoice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._lines: list[Control] = []
        self._choice = FitChoice()
        self._place = 0

    @property
    def names(self) -> list[str]:
        return [line.name for line in self._lines]

    @property
    def selected(self) -> str:
        return self._lines[self._place].name if self._lines else ""

    def show(self, report: FitReport) -> None:
        self._lines = controls(report)
        self._choice = report.choice
        self._place = min(self._place, len(self._lines) - 1)
        self.styles.height = len(self._lines)
        self.refresh(layout=True)

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def action_move(self, step: int) -> None:
        if self._lines:
            self._place = (self._place + step) % len(self._lines)
            self.refresh()

    def action_turn(self, step: int) -> None:
        if not self._lines:
            return
        line = self._lines[self._place]
        index = line.index + step
        if 0 <= index < len(line.values):
            # Shown at once; the new report follows and shows the same.
            self._lines[self._place] = replace(line, index=index)
            self._choice = line.change(self._choice, index)
            self.refresh()
            self.post_message(self.Changed(self._choice))

    def on_click(self, event: events.Click) -> None:
        self.focus()
        if 0 <= event.y < len(self._lines):
            self._place = event.y
            middle = 2 + _NAME_WIDTH + _VALUE_WIDTH // 2 + 2
            if _NAME_WIDTH < event.x < _NAME_WIDTH + _VALUE_WIDTH + 6:
                self.action_turn(1 if event.x >= middle else -1)
            self.refresh()

    def render(self) -> Text:
        look = self.look
        rows = []
        for place, line in enumerate(self._lines):
            here = place == self._place and self.has_focus
            value = Text(line.values[line.index])
            value.truncate(_VALUE_WIDTH, overflow="ellipsis")
            row = Text("▸ " if here else "  ", look.accent)
            row.append(line.name.ljust(_NAME_WIDTH), look.text if here else look.muted)
            less = line.index > 0
            more = line.index < len(line.values) - 1
            row.append("◂ ", look.accent if less else look.faint)
            row.append(value.plain.rjust(_VALUE_WIDTH), f"bold {look.text}")
            row.append(" ▸", look.accent if more else look.faint)
            row.append(f"  {line.hint}", look.muted)
            row.truncate(max(10, self.size.width), overflow="ellipsis")
            rows.append(row)
        return Text("\n").join(rows)
