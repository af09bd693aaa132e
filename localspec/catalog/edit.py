"""Adding a pair to the user's models.toml; what the user wrote there stays, comments included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.catalog.entries import CatalogModel, HubSource, PathSource, WheelSource
from localspec.catalog.load import Catalog, check_user_text
from localspec.errors import ConfigError, UsageError
from localspec.paths import Paths
from localspec.whole_file import write_whole

_PAIR_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""What can be typed without quotes and read as neither a path nor an option."""


@dataclass(frozen=True, slots=True)
class NewPair:
    """What `pair add` writes."""

    id: str
    target: CatalogModel
    draft: CatalogModel | None
    draft_max: int | None = None
    p_min: float | None = None
    note: str = ""


def add_pair(new: NewPair, catalog: Catalog, paths: Paths, *, replace: bool = False) -> Path:
    """Write `new` into the user's models.toml; the path of that file.

    Models that the catalogue has already are named, others get a table of their own. The whole
    file is checked before it takes the place of the old one.
    Raises UsageError for an id that is no id, or is taken and `replace` is not set; ConfigError.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if _PAIR_ID.fullmatch(new.id) is None:
        raise UsageError(
            f"{new.id!r} cannot be the id of a pair",
            hint="letters, digits and . _ + - make one, a letter or digit first: --id my-pair",
            id=new.id,
        )
    taken = catalog.find(new.id)
    if taken is not None and not replace:
        raise UsageError(
            f"there is a pair {taken.id!r} already",
            hint="choose another with --id, or replace it with --force",
            id=taken.id,
        )
    file = paths.user_catalog
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        document = tomlkit.parse(text)
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigError(f"{file} cannot be edited: {error}", file=str(file)) from error
    if "schema" not in document:
        # A key behind the tables would belong to the last of them.
        document = tomlkit.parse(f"schema = 1\n{text}" if text else "schema = 1\n")
    for model in (new.target, new.draft):
        if model is not None and catalog.models.get(model.id) != model:
            _table(document, "models")[model.id] = _model_table(model)
    _table(document, "pairs")[new.id] = _pair_table(new)
    written = tomlkit.dumps(document)
    check_user_text(written, paths)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, written)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}",
            hint="free some space, or set LOCALSPEC_HOME to another folder",
            file=str(file),
        ) from error
    return file


def model_id(source_name: str, catalog: Catalog) -> str:
    """A free id for a model, from the name of its file."""
    stem = source_name.replace("\\", "/").rsplit("/", 1)[-1]
    base = re.sub(r"[^a-z0-9._+-]+", "-", stem.removesuffix(".gguf").lower()).strip("-") or "model"
    found, number = base, 2
    while found in catalog.models:
        found, number = f"{base}-{number}", number + 1
    return found


def _table(document: Any, kind: str) -> Any:
    import tomlkit

    if kind not in document:
        document[kind] = tomlkit.table(is_super_table=True)
    return document[kind]


def _model_table(model: CatalogModel) -> Any:
    import tomlkit

    table = tomlkit.table()
    match model.source:
        case HubSource(repo=repo, filename=filename, revision=revision):
            table["repo"] = repo
            if filename:
                table["filename"] = filename
            if revision:
                table["revision"] = revision
        case PathSource(path=path):
            table["path"] = str(path)
        case WheelSource():
            raise UsageError(f"{model.id} travels in wheels: name it by its id in the catalogue")
    if model.sha256:
        table["sha256"] = model.sha256
    if model.size:
        table["size"] = model.size
    return table


def _pair_table(new: NewPair) -> Any:
    import tomlkit

    table = tomlkit.table()
    table["method"] = "draft" if new.draft is not None else "ngram"
    table["target"] = new.target.id
    if new.draft is not None:
        table["draft"] = new.draft.id
    if new.draft_max is not None:
        table["draft_max"] = new.draft_max
    if new.p_min is not None:
        table["p_min"] = new.p_min
    if new.note:
        table["note"] = new.note
    return table
