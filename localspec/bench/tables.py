"""The tables of a comparison, as text cells."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.bench.results import Comparison, GroupResult

ALL = "all"
DASH = "–"


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...]
    """Columns that are set to the right: all but the names."""

    def split(self, width: int) -> tuple[Table, ...]:
        """This table in pieces of at most `width` characters, the names repeated in each. A
        column that is too wide by itself gets a piece of its own."""
        widths = [
            max(len(line[index]) for line in (self.columns, *self.rows))
            for index in range(len(self.columns))
        ]
        pieces: list[list[int]] = []
        for index in range(1, len(self.columns)):
            used = widths[0] + sum(widths[i] + 2 for i in pieces[-1]) if pieces else width
            if not pieces or used + widths[index] + 2 > width:
                pieces.append([])
            pieces[-1].append(index)
        return tuple(self._columns([0, *piece]) for piece in pieces)

    def _columns(self, kept: list[int]) -> Table:
        return Table(
            tuple(self.columns[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in self.rows),
            tuple(range(1, len(kept))),
        )


def summary_table(comparison: Comparison) -> Table:
    """One row per method over all prompts."""
    columns = (
        "METHOD",
        "TOK/S",
        "SPEED-UP",
        "WORST",
        "NOISE",
        "ACCEPTED",
        "PER ROUND",
        "PROPOSE",
        "VERIFY",
        "REST",
        "FORMULA",
        "IDENTICAL",
    )
    rows = tuple(_summary_row(group) for group in comparison.summary)
    return Table(columns, rows, tuple(range(1, len(columns))))


def workload_table(comparison: Comparison) -> Table:
    """Speed-ups: one row per method, one column per workload."""
    columns = ("METHOD", *(name.upper() for name in comparison.workloads), ALL.upper())
    rows = []
    for summary in comparison.summary:
        groups = (comparison.group(summary.method, name) for name in comparison.workloads)
        cells = [times(group.speedup if group else None) for group in groups]
        rows.append((summary.method, *cells, times(summary.speedup)))
    return Table(columns, tuple(rows), tuple(range(1, len(columns))))


def position_table(comparison: Comparison, positions: int = 8) -> Table:
    """Acceptance by draft position, in percent of what was drafted there."""
    drafting = [group for group in comparison.summary if group.drafted_per_position]
    width = max((len(group.drafted_per_position) for group in drafting), default=0)
    shown = min(width, positions)
    columns = ("METHOD", *(str(position + 1) for position in range(shown)))
    rows = tuple(
        (group.method, *(_at_position(group, position) for position in range(shown)))
        for group in drafting
    )
    return Table(columns, rows, tuple(range(1, len(columns))))


def times(ratio: float | None) -> str:
    """`1.93×`, or a dash for what could not be measured."""
    return DASH if ratio is None else f"{ratio:.2f}×"


def percent(share: float | None) -> str:
    return DASH if share is None else f"{share * 100:.0f} %"


def _summary_row(group: GroupResult) -> tuple[str, ...]:
    per_round = DASH if group.tokens_per_round is None else f"{group.tokens_per_round:.2f}"
    drafted = bool(group.drafted_per_position) or group.acceptance_rate > 0
    return (
        group.method,
        f"{group.decode_tokens_per_second:.1f}",
        times(group.speedup),
        times(group.worst),
        DASH if group.noise is None else f"±{group.noise * 50:.0f} %",
        percent(group.acceptance_rate) if drafted else DASH,
        per_round,
        percent(group.propose_share),
        percent(group.verify_share),
        percent(group.rest_share),
        times(group.prediction.speedup if group.prediction else None),
        f"{group.identical}/{group.prompts}",
    )


def _at_position(group: GroupResult, position: int) -> str:
    if position >= len(group.drafted_per_position) or not group.drafted_per_position[position]:
        return DASH
    accepted = group.accepted_per_position
    right = accepted[position] if position < len(accepted) else 0
    return percent(right / group.drafted_per_position[position])
