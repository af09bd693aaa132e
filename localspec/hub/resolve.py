"""From the name of a model to its files: which are here, which are missing. Asks nobody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from localspec.catalog.entries import CatalogModel, CatalogPair, HubSource, PathSource, Source
from localspec.catalog.load import Catalog
from localspec.errors import BadModelFile
from localspec.hub.elsewhere import FoundFile, find_elsewhere, repository_files
from localspec.hub.names import HubName, PairName, PathName, parse_name
from localspec.hub.quants import RepoFile, choose, part_names, variants, with_quant
from localspec.hub.store import Store
from localspec.paths import Paths


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A model file that is on this machine."""

    path: Path
    """For a model split over several files, the first of them."""
    size: int
    """Bytes, all parts together."""
    found_in: str
    """`localspec`, `path`, or whose folder it lies in."""
    source: Source
    name: str
    unverified: str | None = None
    """The sha256 that the catalogue demands, where nobody has held the file against it yet."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A model file that has to be fetched."""

    source: Source
    name: str
    size: int | None
    """Bytes; None when only the Hub knows."""
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ResolvedPair:
    """A pair with its files located."""

    id: str
    """How the model is named from here on: the pair's id, the path, or the place on the Hub."""
    method: str
    """What can run: `draft` with a draft model, else `ngram`."""
    target: LocalFile | Missing
    draft: LocalFile | Missing | None
    store: Path
    """Folder that finished downloads go to."""
    draft_max: int | None = None
    p_min: float | None = None
    notes: tuple[str, ...] = ()
    """One line each, for the user to read before running."""
    pair: CatalogPair | None = None
    """The catalogue's entry; None for paths and places on the Hub."""

    @property
    def missing(self) -> tuple[tuple[str, Missing], ...]:
        """Role and file of everything that has to be pulled first."""
        files = (("target", self.target), ("draft", self.draft))
        return tuple((role, file) for role, file in files if isinstance(file, Missing))


def resolve(name: str, catalog: Catalog, paths: Paths) -> ResolvedPair:
    """The pair that `name` means, its files looked up on this machine only.

    Raises UsageError for a name that means nothing, BadModelFile for a path with no file.
    """
    store = Store(paths.models)
    match parse_name(name, catalog):
        case PairName(pair_id=pair_id):
            return resolve_pair(catalog.pair(pair_id), store)
        case PathName(path=path):
            target = local_path(path)
            return ResolvedPair(str(path), "ngram", target, None, paths.models)
        case HubName(source=source):
            model = CatalogModel(str(source), source)
            located = locate(model, store)
            return ResolvedPair(str(source), "ngram", located, None, paths.models)


def resolve_pair(pair: CatalogPair, store: Store) -> ResolvedPair:
    """A pair of the catalogue with its files located."""
    notes = [pair.note] if pair.note else []
    draft = locate(pair.draft, store) if pair.draft is not None and pair.built else None
    if not pair.built:
        notes.insert(
            0,
            f"the {pair.method} drafter is not built yet: {pair.id} runs with the n-gram drafter",
        )
    return ResolvedPair(
        id=pair.id,
        method=pair.method if pair.built else "ngram",
        target=locate(pair.target, store),
        draft=draft,
        store=store.root,
        draft_max=pair.draft_max,
        p_min=pair.p_min,
        notes=tuple(notes),
        pair=pair,
    )


def locate(model: CatalogModel, store: Store, *, parts: bool = True) -> LocalFile | Missing:
    """Where the file of `model` is: in the store, or in another program's folder.

    parts: whether a split model counts only with all its parts.
    Raises BadModelFile for a path source with no file, UsageError for names that lead astray.
    """
    source = model.source
    if isinstance(source, PathSource):
        return local_path(source.path, model.shown)
    if isinstance(source, HubSource) and source.filename is None:
        named = _held_file(source, store)
        if named is None:
            return Missing(source, model.shown, model.size, model.sha256)
        return locate(replace(model, source=named), store)
    if parts and isinstance(source, HubSource):
        names = part_names(source.filename or "")
        if len(names) > 1:
            return _locate_split(model, source, names, store)
    final = store.path_for(source)
    if final.is_file():
        record = store.record(final)
        if model.sha256 is None or (record is not None and record.sha256 == model.sha256):
            size = final.stat().st_size
            return LocalFile(final, size, "localspec", source, model.shown)
    if isinstance(source, HubSource):
        found = find_elsewhere(source, model.sha256, model.size)
        if found is not None:
            return _in_place(found, model, source, store)
    return Missing(source, model.shown, model.size, model.sha256)


def _in_place(
    found: FoundFile, model: CatalogModel, source: HubSource, store: Store
) -> LocalFile | Missing:
    """A file of another program, unless it was found out to be another file."""
    known = found.sha256 or (store.elsewhere.sha256(found.path) if model.sha256 else None)
    if model.sha256 is not None and known is not None and known != model.sha256:
        return Missing(source, model.shown, model.size, model.sha256)
    size = found.path.stat().st_size
    unverified = model.sha256 if known is None else None
    return LocalFile(found.path, size, found.found_in, source, model.shown, unverified)


def _locate_split(
    model: CatalogModel, source: HubSource, names: tuple[str, ...], store: Store
) -> LocalFile | Missing:
    missing = Missing(source, model.shown, model.size, model.sha256)
    found: list[LocalFile] = []
    for name in names:
        pinned = model.sha256 if name == source.filename else None
        part = CatalogModel(model.id, replace(source, filename=name), sha256=pinned)
        located = locate(part, store, parts=False)
        if isinstance(located, Missing):
            return missing
        found.append(located)
    first = found[0]
    # llama.cpp looks for the parts beside the first one.
    if any(part.path.parent != first.path.parent for part in found):
        return missing
    return LocalFile(
        first.path, sum(part.size for part in found), first.found_in, source, model.shown
    )


def _held_file(source: HubSource, store: Store) -> HubSource | None:
    """The file that is here of a repository, or of one quantisation of it; None when none is."""
    held = store.held(source) or [(source.repo, name) for name in repository_files(source)]
    by_name = {name: repo for repo, name in held}
    found = variants(RepoFile(name, None, None) for name in by_name)
    chosen = with_quant(found, source.quant) if source.quant else choose(found)
    if chosen is None:
        return None
    return replace(source, repo=by_name[chosen.path], filename=chosen.path, quant=None)


def local_path(path: Path, shown: str = "") -> LocalFile:
    """The file at `path`. Raises BadModelFile when there is none."""
    if path.is_dir():
        raise BadModelFile(
            f"{path} is a folder, not a model file",
            hint="name the .gguf file in it",
            path=str(path),
        )
    try:
        size = path.stat().st_size
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise BadModelFile(
            f"{path}: {reason}", hint="localspec list shows the models you have", path=str(path)
        ) from error
    return LocalFile(path, size, "path", PathSource(path), shown or path.stem)
