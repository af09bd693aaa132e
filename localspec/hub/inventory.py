"""What `list` shows: every pair of the catalogue, and the models that lie here besides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import CatalogModel, CatalogPair, PathSource
from localspec.catalog.load import Catalog
from localspec.errors import BadModelFile
from localspec.hub.headers import HeaderCache, HeaderSummary
from localspec.hub.local_models import LocalModel, local_models
from localspec.hub.resolve import LocalFile, locate
from localspec.hub.store import Store
from localspec.paths import Paths


@dataclass(frozen=True, slots=True)
class FileState:
    """One file of a row."""

    path: Path | None
    """Where it is; None when it is not on this machine."""
    size: int | None
    """Bytes; None when only the Hub knows."""
    on_disk: bool
    found_in: str | None = None
    """`localspec`, `path`, or whose folder it lies in; None when it is not here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pair of the catalogue, or one model file outside it."""

    id: str
    method: str
    built: bool
    """Whether the drafter of the method is there; if not, the n-gram drafter runs."""
    target: FileState
    draft: FileState | None
    pair: CatalogPair | None = None
    """The catalogue's entry; None for a file outside it."""
    header: HeaderSummary | None = None
    """What a file outside the catalogue is."""

    @property
    def files(self) -> tuple[FileState, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def present(self) -> bool:
        """Whether any file is on this machine."""
        return any(file.on_disk for file in self.files)

    @property
    def size(self) -> int | None:
        """Bytes of all files; None when that of one is not known."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def disk_use(self) -> int:
        """Bytes on this machine."""
        return sum(file.size or 0 for file in self.files if file.on_disk)

    @property
    def shown_method(self) -> str:
        return self.method if self.built else f"{self.method} *"

    @property
    def disk_mark(self) -> str:
        """`all`, `part` or a dash: never a colour alone."""
        here = sum(file.on_disk for file in self.files)
        return "all" if here == len(self.files) else "part" if here else "-"


def inventory(catalog: Catalog, paths: Paths) -> list[Row]:
    """All pairs in the catalogue's order, then the models on this machine that no pair names."""
    store = Store(paths.models)
    states: dict[str, FileState] = {}
    rows = [
        Row(
            pair.id,
            pair.method,
            pair.built,
            _state(pair.target, store, states),
            _state(pair.draft, store, states) if pair.draft is not None else None,
            pair,
        )
        for pair in catalog.pairs.values()
    ]
    named = {file.path.resolve() for row in rows for file in row.files if file.path is not None}
    others = [model for model in local_models(paths) if model.path.resolve() not in named]
    return rows + model_rows(others, paths)


def model_rows(models: Iterable[LocalModel], paths: Paths) -> list[Row]:
    """A row for each model file, with what its header says."""
    with HeaderCache(paths) as headers:
        return [
            Row(
                model.name,
                "ngram",
                True,
                FileState(model.path, model.size, True, model.found_in),
                None,
                header=headers.summary(model.path, model.stat),
            )
            for model in models
        ]


def _state(model: CatalogModel, store: Store, states: dict[str, FileState]) -> FileState:
    """Where the file is; looked up once for all pairs that share it."""
    known = states.get(model.id)
    if known is not None:
        return known
    try:
        located = locate(model, store)
    except BadModelFile:
        # The user's own entry names a file that is gone; the list shows it as missing.
        path = model.source.path if isinstance(model.source, PathSource) else None
        state = FileState(path, model.size, False)
    else:
        if isinstance(located, LocalFile):
            state = FileState(located.path, located.size, True, located.found_in)
        else:
            state = FileState(None, located.size, False)
    states[model.id] = state
    return state
