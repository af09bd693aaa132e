"""What could draft for a model, as a table or as JSON; for `list --for` and `pair find`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from localspec.cli.output import Output
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.catalog.load import Catalog
    from localspec.hub.draft_candidates import DraftCandidate
    from localspec.paths import Paths


def show_drafts(
    model: str, catalog: Catalog, paths: Paths, output: Output, *, online: bool
) -> None:
    """Search and show. Raises UsageError and BadModelFile for `model` itself."""
    from localspec.hub.client import HubClient
    from localspec.hub.drafts import find_drafts
    from localspec.hub.failures import RetryPolicy
    from localspec.hub.resolve import resolve

    resolved = resolve(model, catalog, paths)
    # Somebody waits for this table: one more try, no patience beyond it.
    client = (
        HubClient(RetryPolicy(attempts=2, patient_attempts=2, longest_asked_s=5.0))
        if online
        else None
    )
    found = find_drafts(resolved, catalog, paths, client=client, measured=_measured(catalog, paths))
    output.document(
        {
            "target": found.target,
            "candidates": [
                {**asdict(candidate), "small_enough": candidate.small_enough}
                for candidate in found.candidates
            ],
            "refused": [{"name": name, "reason": reason} for name, reason in found.refused],
            "notes": found.notes,
        }
    )
    if found.candidates:
        output.table(
            ("DRAFT", "METHOD", "SIZE", "OF TARGET", "VOCABULARY", "WHERE", "GAIN"),
            [_row(candidate) for candidate in found.candidates],
            right=(2, 3, 6),
        )
        output.note("a draft of at most a fifth of the target's size pays best")
    else:
        output.note(f"nothing found that could draft for {found.target}: --draft ngram needs none")
    for note in found.notes:
        output.note(note)
    for name, reason in found.refused:
        output.note(f"not {name}: {reason}")


def _row(candidate: DraftCandidate) -> tuple[str, ...]:
    where = candidate.found
    if candidate.on_disk and where != "disk":
        where = f"{where}, on disk"
    return (
        candidate.name,
        candidate.method,
        "?" if candidate.size is None else format_file_size(candidate.size),
        "?" if candidate.ratio is None else f"{candidate.ratio:.0%}",
        candidate.vocabulary,
        where,
        "-" if candidate.measured_speedup is None else f"{candidate.measured_speedup:.2f}x",
    )


def _measured(catalog: Catalog, paths: Paths) -> dict[str, float]:
    if not (paths.data / "bench").is_dir():
        return {}
    from localspec.bench.history import measured_speedups

    return measured_speedups(catalog.pairs, paths=paths)
