"""`localspec pair`: the user's own pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli.drafts_table import show_drafts
from localspec.cli.output import Output

if TYPE_CHECKING:
    from localspec.catalog.entries import CatalogModel
    from localspec.catalog.load import Catalog
    from localspec.paths import Paths


def add(
    output: Output,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A pair's or model's id, path or owner/repo.")
    ],
    draft: Annotated[
        str | None, typer.Argument(metavar="[DRAFT]", help="The same for the draft; none: n-gram.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", metavar="ID", help="Name of the pair.")] = None,
    draft_max: Annotated[
        int | None,
        typer.Option("--draft-max", metavar="N", min=1, max=64, help="Most draft tokens a round."),
    ] = None,
    p_min: Annotated[
        float | None,
        typer.Option("--p-min", metavar="P", min=0.0, max=1.0, help="Confidence to stop below."),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What to know.")] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a pair of that id, and skip the vocabulary check."),
    ] = False,
) -> None:
    """Add a pair to your models.toml; what you wrote there stays, comments included."""
    from localspec.catalog.edit import NewPair, add_pair
    from localspec.catalog.load import load_catalog
    from localspec.paths import user_paths

    paths = user_paths()
    catalog = load_catalog(paths)
    target_model = _model(target, catalog, paths, role="target")
    draft_model = _model(draft, catalog, paths, role="draft") if draft is not None else None
    if draft_model is not None:
        _require_fitting(target_model, draft_model, paths, output, force=force)
    pair_id = _pair_id(target_model, draft_model) if id_ is None else id_
    new = NewPair(pair_id, target_model, draft_model, draft_max, p_min, note)
    file = add_pair(new, catalog, paths, replace=force)
    output.document({"id": pair_id, "file": file})
    output.line(f"{pair_id} is in {file}")


def find(
    output: Output,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The target.")],
    online: Annotated[
        bool, typer.Option("--online/--offline", help="Whether to ask the Hub too.")
    ] = True,
) -> None:
    """Show what could draft for a model, as `localspec list --for` does."""
    from localspec.catalog.load import load_catalog
    from localspec.paths import user_paths

    paths = user_paths()
    show_drafts(model, load_catalog(paths), paths, output, online=online)


subcommands = {"add": add, "find": find}


def _model(name: str, catalog: Catalog, paths: Paths, *, role: str) -> CatalogModel:
    """The model that `name` means: one of the catalogue, or a new one."""
    from localspec.catalog.edit import model_id
    from localspec.catalog.entries import CatalogModel, PathSource
    from localspec.errors import UsageError
    from localspec.hub.resolve import LocalFile, resolve

    known = catalog.models.get(name)
    if known is not None:
        return known
    pair = catalog.find(name)
    if pair is not None:
        return pair.draft if role == "draft" and pair.draft is not None else pair.target
    located = resolve(name, catalog, paths).target
    source = located.source
    if isinstance(source, PathSource):
        source = PathSource(source.path.resolve())
    same = next((model for model in catalog.models.values() if model.source == source), None)
    if same is not None:
        return same
    filename = getattr(source, "filename", None)
    if not isinstance(source, PathSource) and filename is None:
        raise UsageError(
            f"{name} names no file",
            hint="name one: owner/repo/file.gguf, or pull it first",
            name=name,
        )
    size = located.size if isinstance(located, LocalFile) else None
    title = filename or str(source)
    pinned_size = None if isinstance(source, PathSource) else size
    return CatalogModel(model_id(title, catalog), source, size=pinned_size)


def _require_fitting(
    target: CatalogModel, draft: CatalogModel, paths: Paths, output: Output, *, force: bool
) -> None:
    """Raises IncompatiblePair when both headers are here and their vocabularies differ.

    Warns of a draft that cannot win anything; force: does nothing else.
    """
    from localspec.errors import BadModelFile
    from localspec.ggufmeta.compatibility import require_pair
    from localspec.ggufmeta.header import read_header
    from localspec.hub.draft_candidates import why_no_gain
    from localspec.hub.resolve import LocalFile, locate
    from localspec.hub.store import Store

    if target.source == draft.source:
        output.warn("target and draft are the same file: drafting costs as much as answering")
        return
    store = Store(paths.models)
    files = (locate(target, store), locate(draft, store))
    if not (isinstance(files[0], LocalFile) and isinstance(files[1], LocalFile)):
        if not force:
            output.note("the vocabularies are checked once both files are here: localspec check")
        return
    try:
        headers = read_header(files[0].path), read_header(files[1].path)
    except BadModelFile:
        if force:
            return
        raise
    if not force:
        require_pair(*headers)
    no_gain = why_no_gain(*headers, same_file=files[0].path.samefile(files[1].path))
    if no_gain:
        output.warn(no_gain)


def _pair_id(target: CatalogModel, draft: CatalogModel | None) -> str:
    return f"{target.id}+{draft.id}" if draft is not None else f"{target.id}+ngram"
