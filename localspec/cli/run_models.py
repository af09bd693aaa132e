"""From MODEL and --draft to files on this machine, fetching what is missing if the user agrees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.cli.engine_options import DraftChoice
from localspec.cli.output import Output
from localspec.errors import DownloadError
from localspec.paths import Paths
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.hub.resolve import ResolvedPair


@dataclass(frozen=True, slots=True)
class ReadyModels:
    """Files that are here, and what the catalogue says about the pair."""

    id: str
    target: Path
    draft: Path | None
    draft_max: int | None
    p_min: float | None


def prepare_models(name: str, draft: DraftChoice, output: Output, paths: Paths) -> ReadyModels:
    """Look both files up; pull what is missing after asking (`--yes` agrees beforehand).

    Raises UsageError, BadModelFile, DownloadError.
    """
    from localspec.catalog.load import load_catalog
    from localspec.hub.resolve import resolve

    catalog = load_catalog(paths)
    resolved = resolve(name, catalog, paths)
    for note in _notes(resolved):
        output.note(f"{resolved.id}: {note}")
    if draft.model is not None:
        own = resolve(draft.model, catalog, paths)
        resolved = replace(resolved, draft=own.target)
    elif not draft.wants_model:
        resolved = replace(resolved, draft=None)
    target, draft_path = _fetch_missing(resolved, output, paths)
    return ReadyModels(resolved.id, target, draft_path, resolved.draft_max, resolved.p_min)


def _notes(resolved: ResolvedPair) -> tuple[str, ...]:
    """What to say before running: all that is known about a model that is new here; later only
    that its drafter is not built yet."""
    if resolved.missing:
        return resolved.notes
    built = resolved.pair is None or resolved.pair.built
    return () if built else resolved.notes[:1]


def _fetch_missing(
    resolved: ResolvedPair, output: Output, paths: Paths
) -> tuple[Path, Path | None]:
    from localspec.hub.resolve import LocalFile

    found = {
        role: file.path
        for role, file in (("target", resolved.target), ("draft", resolved.draft))
        if isinstance(file, LocalFile)
    }
    if resolved.missing:
        found |= _pull(resolved, output, paths)
    return found["target"], found.get("draft")


def _pull(resolved: ResolvedPair, output: Output, paths: Paths) -> dict[str, Path]:
    """Paths of both files by role, after a download to which the user agreed."""
    from localspec.cli.memory_glance import weight_budget
    from localspec.cli.pulling import pull_with_progress
    from localspec.hub.pull import plan_pull

    plan = plan_pull(resolved, memory_budget=weight_budget(resolved, paths))
    if plan.to_fetch:
        size = format_file_size(plan.to_fetch)
        if not output.confirm(f"{resolved.id} is not here yet. Download {size}?"):
            raise DownloadError(
                f"{resolved.id} is not here yet: {size} to download",
                hint=f"localspec pull {resolved.id}, or run with --yes",
                to_fetch=plan.to_fetch,
            )
    narrator = output.without_json()
    # A split model has one file per part; llama.cpp is given the first.
    return {file.role: file.path for file in reversed(pull_with_progress(plan, narrator))}
