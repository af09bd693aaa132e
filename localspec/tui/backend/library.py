"""The catalogue and what is on disk, as rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from localspec.errors import UsageError
from localspec.paths import Paths
from localspec.tui.backend.guess import guessed_size
from localspec.tui.backend.views import FileView, ModelRow
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.catalog.entries import CatalogModel, CatalogPair
    from localspec.catalog.load import Catalog
    from localspec.hub.inventory import FileState, Row
    from localspec.hub.resolve import ResolvedPair


class Library:
    """Looks at the catalogue and at files; never at the network."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._known: tuple[int, Catalog] | None = None

    def rows(self) -> list[ModelRow]:
        """Every pair, then files that no pair names. Raises ConfigError."""
        from localspec.bench.history import measured_speedups
        from localspec.hub.inventory import inventory

        catalog = self._catalog()
        found = inventory(catalog, self._paths)
        gains = measured_speedups([row.id for row in found], paths=self._paths)
        by_target: dict[str, list[str]] = {}
        for pair in catalog.pairs.values():
            by_target.setdefault(pair.target.id, []).append(pair.id)
        return [_row(row, catalog.pairs.get(row.id), gains.get(row.id), by_target) for row in found]

    def resolve(self, model: str) -> ResolvedPair:
        """Raises UsageError for a name that means nothing, BadModelFile for a missing file."""
        from localspec.hub.resolve import resolve

        catalog = self._catalog()
        pair, _, quant = model.rpartition(":")
        if catalog.find(model) is None and catalog.find(pair) is not None:
            return self._with_quant(model, resolve(pair, catalog, self._paths), quant)
        return resolve(model, catalog, self._paths)

    def _with_quant(self, model: str, resolved: ResolvedPair, quant: str) -> ResolvedPair:
        """The same pair with another quantisation of its target (`views.named`)."""
        from localspec.catalog.entries import CatalogModel, HubSource
        from localspec.hub.resolve import locate
        from localspec.hub.store import Store

        source = resolved.target.source
        if not isinstance(source, HubSource):
            raise UsageError(f"{resolved.id} comes in one quantisation only")
        other = HubSource(source.repo, revision=source.revision, quant=quant)
        found = locate(CatalogModel(str(other), other), Store(resolved.store))
        return replace(resolved, id=model, target=found)

    def remove(self, model: str) -> str:
        """Raises UsageError when nothing of it is here."""
        from localspec.hub.remove import remove

        removals = remove(self.resolve(model))
        freed = sum(removal.freed for removal in removals)
        kept = [r for r in removals if r.kept_because]
        text = f"{format_file_size(freed)} freed" if freed else "nothing was freed"
        for removal in kept:
            text += f"; {removal.path.name} stays: {removal.kept_because}"
        return text

    def _catalog(self) -> Catalog:
        """Read again only when the user's own file has changed."""
        from localspec.catalog.load import load_catalog

        try:
            changed = self._paths.user_catalog.stat().st_mtime_ns
        except OSError:
            changed = 0
        known = self._known
        if known is None or known[0] != changed:
            known = self._known = (changed, load_catalog(self._paths))
        return known[1]


def _row(
    row: Row, pair: CatalogPair | None, gain: float | None, by_target: dict[str, list[str]]
) -> ModelRow:
    if pair is None:
        path = row.target.path
        name = path.stem if path is not None else row.id
        target = FileView("target", name, row.target.size, row.target.on_disk, source=str(path))
        return ModelRow(row.id, row.method, target, built=row.built, gain=gain)
    reported = f"{pair.reported.figure} ({pair.reported.source})" if pair.reported else ""
    draft = None
    if pair.draft is not None and row.draft is not None:
        draft = _file("draft", pair.draft, row.draft)
    others = tuple(other for other in by_target.get(pair.target.id, ()) if other != pair.id)
    return ModelRow(
        id=row.id,
        method=row.method,
        target=_file("target", pair.target, row.target),
        draft=draft,
        built=row.built,
        note=pair.note,
        reported=reported,
        gain=gain,
        drafts=others,
    )


def _file(role: str, model: CatalogModel, state: FileState) -> FileView:
    elsewhere = state.found_in if state.found_in not in (None, "localspec", "path") else ""
    return FileView(
        role,
        model.shown,
        state.size,
        state.on_disk,
        model.license,
        elsewhere or "",
        str(model.source),
        None if state.size is not None else guessed_size(_told(model)),
    )


def _told(model: CatalogModel) -> str:
    """Everything the catalogue says about a file that may name its size."""
    return f"{model.shown} {model.id} {model.source}"
