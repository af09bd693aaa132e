"""A pull with its progress on the output; `run` uses it too for what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localspec.cli.output import Output
from localspec.events import DownloadProgress
from localspec.units import format_duration, format_file_size, format_rate

if TYPE_CHECKING:
    from localspec.hub.pull import PulledFile, PullPlan


def pull_with_progress(plan: PullPlan, output: Output) -> tuple[PulledFile, ...]:
    """Pull `plan`; progress as a status line, or as JSON lines with `--json`.

    Raises DownloadError. Ctrl-C stops it; what arrived is kept.
    """
    from localspec.hub.pull import pull

    latest: dict[tuple[str, str], DownloadProgress] = {}

    def show(event: DownloadProgress) -> None:
        latest[event.role, event.name] = event
        output.json_line(event)
        output.progress(*progress_line(plan.id, list(latest.values())))

    if plan.to_fetch and plan.resumed_bytes:
        output.note(f"going on after {format_file_size(plan.resumed_bytes)}")
    try:
        return pull(plan, show, on_note=output.note)
    finally:
        output.clear_status()


def progress_line(pair_id: str, events: list[DownloadProgress]) -> tuple[str, float, str]:
    """Label, fraction and detail of all files together: bytes, rate and time left."""
    done = sum(event.done for event in events)
    total = sum(event.total for event in events)
    rate = sum(event.rate for event in events)
    fraction = done / total if total else 0.0
    stages = {event.stage for event in events if event.stage != "done"}
    detail = f"{format_file_size(done)} of {format_file_size(total)}"
    if rate:
        detail += f"  {format_rate(rate)}  {format_duration((total - done) / rate)} left"
    if stages and stages <= {"verifying"}:
        detail = f"verifying {detail}"
    elif stages == {"waiting"}:
        detail = "waiting"
    return pair_id, fraction, detail
