"""Removing a pair: its files go, but for those that another pulled pair still needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.catalog.entries import HubSource, PathSource
from localspec.errors import UsageError
from localspec.hub.quants import part_names
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


def remove(resolved: ResolvedPair, *, dry_run: bool = False) -> tuple[Removal, ...]:
    """Delete the finished and unfinished files of `resolved` that nobody else needs.

    dry_run: changes nothing, and tells what would happen.
    Raises UsageError when localspec holds nothing of it.
    """
    store = Store(resolved.store)
    files = (("target", resolved.target), ("draft", resolved.draft))
    pair_id = resolved.pair.id if resolved.pair is not None else ""
    removals: list[Removal] = []
    for role, file in files:
        if isinstance(file, LocalFile):
            removals += _remove_local(role, file, pair_id, store, dry_run)
        elif file is not None:
            removals += _remove_unfinished(role, file, store, dry_run)
    if not removals:
        raise UsageError(
            f"nothing of {resolved.id} is downloaded",
            hint="localspec list --local shows what is",
            id=resolved.id,
        )
    return tuple(removals)


def _remove_local(
    role: str, file: LocalFile, pair_id: str, store: Store, dry_run: bool
) -> Iterator[Removal]:
    if not store.holds(file.path):
        reason = f"it lies outside localspec's folder ({file.found_in})"
        yield Removal(role, file.path, 0, reason)
        return
    for name in part_names(file.path.name):
        path = file.path.with_name(name)
        others = (store.wanted_by_others if dry_run else store.unwant)(path, pair_id)
        if others:
            yield Removal(role, path, 0, f"{', '.join(others)} needs it")
        else:
            yield Removal(role, path, path.stat().st_size if dry_run else store.remove(path))


def _remove_unfinished(role: str, file: Missing, store: Store, dry_run: bool) -> Iterator[Removal]:
    """What earlier tries left, and the finished parts of a split model that is not whole."""
    source = file.source
    if isinstance(source, PathSource):
        return
    parts = [source]
    if isinstance(source, HubSource):
        if source.filename is None:
            return
        parts = [replace(source, filename=name) for name in part_names(source.filename)]
    for part in parts:
        final = store.path_for(part)
        freed = store.discard_partial(final, dry_run=dry_run)
        if freed:
            yield Removal(role, store.partial_for(final), freed)
        if len(parts) > 1 and final.is_file() and not store.wanted_by_others(final, ""):
            yield Removal(role, final, final.stat().st_size if dry_run else store.remove(final))
