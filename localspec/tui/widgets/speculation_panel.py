"""The live panel beside a chat: how fast, how much of it was guessed right, and by whom."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.figures import Meter
from localspec.tui.theme import Look
from localspec.tui.widgets.bars import sparkline
from localspec.tui.widgets.topbar import bar_text

DRAFTER_NAMES = {
    "model": "draft model",
    "ngram": "n-gram",
    "context": "n-gram",
    "lookup": "lookup cache",
    "dynamic": "dynamic cache",
    "static": "static cache",
    "chain": "n-gram + draft",
}
METHOD_NAMES = {"none": "plain", "ngram": "n-gram", "model": "draft", "auto": "auto"}
_POSITIONS = 8

HELP = """\
**Speculation**: what the drafter won, in this conversation.

- **tok/s**: decoded tokens per second, over the last 1.5 s and over this answer; reading the \
prompt is not in it.
- **plain would be about**: what plain decoding gives here, from the measured time of a target \
pass (`auto`), or from an answer with the drafter `none`.
- **accepted**: draft tokens that the target kept, of all that were proposed.
- **per round**: tokens per target pass, the target's own token counted.
- **draft len**: tokens proposed per target pass, passes without a draft counted as 0.
- **by position**: how often the 1st, 2nd, … token of a draft was kept, in the last answer.
- **who drafted**: whose tokens the last answer is made of.
- **compared**: tokens per second of each drafter in this conversation. Switch with ctrl+s, answer \
again with ctrl+r.
"""


class SpeculationPanel(Widget):
    """Draws a Meter; `update` looks whether it changed."""

    def __init__(self, meter: Meter, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "Speculation"
        self.meter = meter
        self.look = look
        self._drawn: tuple[object, ...] = ()

    def update(self) -> None:
        """Draw again if there is anything new; cheap if there is not."""
        meter = self.meter
        figures = (
            id(meter),
            meter.now,
            meter.average,
            meter.tokens,
            meter.rounds,
            meter.running,
            meter.plain_rate,
            len(meter.spark),
            len(meter.by_method),
        )
        if figures != self._drawn and self.display:
            self._drawn = figures
            self.refresh()

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        width = max(20, self.size.width)
        lines = panel_lines(self.meter, self.look, width)
        return Text("\n").join(lines[: max(1, self.size.height)])


def panel_lines(meter: Meter, look: Look, width: int) -> list[Text]:
    """The panel's lines, the most telling first."""
    lines = [*_speed(meter, look, width), Text()]
    rate = meter.acceptance
    if rate is None:
        lines.append(_row("accepted", "–", look))
    else:
        row = _row("accepted", f"{rate * 100:3.0f} %", look)
        _add_bar(row, rate, min(14, width - row.cell_len - 2), look)
        lines.append(row)
    lines.append(_row("per round", f"{meter.tokens_per_round:.1f} tokens", look))
    if meter.drafted and meter.rounds:
        length = f"{meter.drafted / meter.rounds:.1f} tokens"
        lines.append(_row("draft len", length, look))
    lines.append(_row("answer", f"{meter.tokens:,} tokens", look))
    if meter.positions:
        lines += [Text(), Text("by position", look.muted)]
        for index, (accepted, drafted) in enumerate(meter.positions[:_POSITIONS]):
            if drafted:
                row = Text(f"{index + 1:>2} ", look.muted)
                share = accepted / drafted
                _add_bar(row, share, max(6, width - 12), look)
                row.append(f" {share * 100:3.0f} %", look.text)
                lines.append(row)
    lines += _who(meter, look, width)
    lines += _compared(meter, look)
    return lines


def _speed(meter: Meter, look: Look, width: int) -> list[Text]:
    now = f"{meter.now:.0f}" if meter.running else "–"
    average = f"{meter.average:.1f}" if meter.average else "–"
    first = Text("tok/s ", look.muted)
    tail = Text.assemble(
        (" now ", look.muted),
        (now, f"bold {look.text}"),
        ("  ⌀ ", look.muted),
        (average, f"bold {look.text}"),
    )
    room = max(4, width - first.cell_len - tail.cell_len)
    first.append(sparkline(meter.spark, room).ljust(room), look.accent)
    first.append_text(tail)
    lines = [first]
    if meter.plain_rate:
        plain = Text(f"plain would be about {meter.plain_rate:.0f}", look.muted)
        if meter.gain is not None:
            plain.append(f"  {meter.gain:.2f}×", f"bold {look.accent}")
        lines.append(plain)
    else:
        lines.append(Text("plain not measured yet", look.muted))
    return lines


def _who(meter: Meter, look: Look, width: int) -> list[Text]:
    total = sum(meter.drafters.values()) + meter.target_tokens
    if not meter.drafters or not total:
        return []
    lines = [Text(), Text("who drafted", look.muted)]
    shares: dict[str, int] = {}
    for name, count in meter.drafters.items():
        shown = DRAFTER_NAMES.get(name, name)
        shares[shown] = shares.get(shown, 0) + count
    rows = [*sorted(shares.items(), key=lambda item: -item[1]), ("target", meter.target_tokens)]
    for name, count in rows:
        row = Text(f" {name:<14}", look.text)
        row.append(f"{count / total * 100:3.0f} % ", look.text)
        _add_bar(row, count / total, max(4, width - row.cell_len - 1), look)
        lines.append(row)
    return lines


def _compared(meter: Meter, look: Look) -> list[Text]:
    if len(meter.by_method) < 2:
        return []
    lines = [Text(), Text("compared", look.muted)]
    best = max(totals.rate for totals in meter.by_method.values())
    for name, totals in sorted(meter.by_method.items(), key=lambda item: -item[1].rate):
        style = f"bold {look.accent}" if totals.rate == best else look.text
        lines.append(
            Text(f" {METHOD_NAMES.get(name, name):<8}", look.text)
            + Text(f"{totals.rate:6.1f} tok/s", style)
            + Text(f"  {totals.tokens_per_round:.1f}/round", look.muted)
        )
    return lines


def _row(name: str, value: str, look: Look) -> Text:
    return Text.assemble((f"{name:<10} ", look.muted), (value, look.text))


def _add_bar(row: Text, share: float, width: int, look: Look) -> None:
    if width > 2:
        row.append(" " if row.plain[-1:] != " " else "")
        row.append_text(bar_text(share, width, look.accent, look.faint))
