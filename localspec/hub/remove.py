"""Removing a pair: its files go, but for those that another pulled pair still needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import HubSource, PathSource
from localspec.errors import UsageError
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair
from localspec.hub.store import Store


@dataclass(frozen=True, slots=True)
class Removal:
    """What happened to one file."""

    role: str
    """`target` or `draft`."""
    path: Path
    freed: int
    """Bytes given back; 0 when the file stays."""
    kept_because: str = ""
    """Why it stays; empty when it went."""


def remove(resolved: ResolvedPair) -> tuple[Removal, ...]:
    """Delete the finished and unfinished files of `resolved` that nobody else needs.

    Raises UsageError when localspec holds nothing of it.
    """
    store = Store(resolved.store)
    files = (("target", resolved.target), ("draft", resolved.draft))
    removals = [
        removal
        for role, file in files
        if file is not None and (removal := _remove_file(role, file, resolved.id, store))
    ]
    if not removals:
        raise UsageError(
            f"nothing of {resolved.id} is downloaded",
            hint="localspec list --local shows what is",
            id=resolved.id,
        )
    return tuple(removals)


def _remove_file(
    role: str, file: LocalFile | Missing, pair_id: str, store: Store
) -> Removal | None:
    if isinstance(file, Missing):
        if isinstance(file.source, PathSource) or (
            isinstance(file.source, HubSource) and file.source.filename is None
        ):
            return None
        final = store.path_for(file.source)
        freed = store.discard_partial(final)
        return Removal(role, store.partial_for(final), freed) if freed else None
    if not store.holds(file.path):
        return Removal(role, file.path, 0, f"it lies outside localspec's folder ({file.found_in})")
    others = store.unwant(file.path, pair_id)
    if others:
        return Removal(role, file.path, 0, f"{', '.join(others)} needs it")
    return Removal(role, file.path, store.remove(file.path))
