"""Reading models.toml: the one that ships, and the user's over it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from localspec.catalog.entries import (
    CatalogModel,
    CatalogPair,
    HubSource,
    PathSource,
    Reported,
    WheelPart,
    WheelSource,
)
from localspec.catalog.nearest import did_you_mean
from localspec.catalog.overlay import overlay
from localspec.catalog.problems import key_path, reference_problems, schema_problems
from localspec.errors import ConfigError, UsageError
from localspec.paths import Paths

if TYPE_CHECKING:
    from localspec.catalog.schema import ModelTable, PairTable


@dataclass(frozen=True, slots=True)
class Catalog:
    """All models and pairs, those of the user included, in the order of the files."""

    models: Mapping[str, CatalogModel]
    pairs: Mapping[str, CatalogPair]

    def find(self, pair_id: str) -> CatalogPair | None:
        """The pair of this id, upper and lower case alike; None when there is none."""
        wanted = _folded(pair_id)
        exact = self.pairs.get(pair_id)
        return exact or next((p for p in self.pairs.values() if _folded(p.id) == wanted), None)

    def pair(self, pair_id: str) -> CatalogPair:
        """The pair of this id. Raises UsageError with the nearest ids when there is none."""
        found = self.find(pair_id)
        if found is None:
            near = did_you_mean(pair_id, self.pairs)
            raise UsageError(
                f"no pair named {pair_id!r} in the catalogue",
                hint=near or "localspec list shows every pair",
                name=pair_id,
            )
        return found


def load_catalog(paths: Paths) -> Catalog:
    """The packaged catalogue with the user's models.toml over it.

    Raises ConfigError that lists every problem of the files at once.
    """
    user_file = paths.user_catalog
    return check_user_text(_read(user_file) if user_file.is_file() else "", paths)


def check_user_text(text: str, paths: Paths) -> Catalog:
    """The catalogue as it would be with `text` as the user's models.toml. Raises ConfigError."""
    base = _parse("models.toml of localspec", _packaged_text())
    user_file = paths.user_catalog
    user = _parse(str(user_file), text)
    return build_catalog(overlay(base, user), user=user, user_file=user_file)


def build_catalog(
    data: dict[str, Any], *, user: dict[str, Any] | None = None, user_file: Path | None = None
) -> Catalog:
    """The catalogue that parsed TOML describes.

    user: the part of it that came from `user_file`, for telling whose problem it is.
    Raises ConfigError.
    """
    from pydantic import ValidationError

    from localspec.catalog.schema import CatalogFile

    problems: list[tuple[tuple[str | int, ...], str]] = []
    checked: CatalogFile | None = None
    try:
        checked = CatalogFile.model_validate(data)
    except ValidationError as error:
        problems += schema_problems(error)
    problems += reference_problems(data)
    if problems or checked is None:
        _refuse(problems, user or {}, user_file)
    user_models = _tables(user, "models")
    user_pairs = _tables(user, "pairs")
    base_folder = user_file.parent if user_file else Path.cwd()
    models = {name: _model(name, table, base_folder) for name, table in checked.models.items()}
    pairs = {
        name: _pair(
            name,
            table,
            models,
            name in user_pairs or bool({table.target, table.draft} & user_models),
        )
        for name, table in checked.pairs.items()
    }
    return Catalog(models, pairs)


def _model(name: str, table: ModelTable, base_folder: Path) -> CatalogModel:
    source: HubSource | WheelSource | PathSource
    if table.repo is not None:
        source = HubSource(table.repo, table.filename, table.revision)
    elif table.wheels is not None and table.filename is not None:
        parts = tuple(WheelPart(part.requirement, part.member) for part in table.wheels)
        source = WheelSource(table.filename, parts)
    else:
        source = PathSource(base_folder / Path(table.path or "").expanduser())
    return CatalogModel(name, source, table.name, table.sha256, table.size, table.license)


def _pair(
    name: str, table: PairTable, models: Mapping[str, CatalogModel], user: bool
) -> CatalogPair:
    return CatalogPair(
        id=name,
        method=table.method,
        target=models[table.target],
        draft=models[table.draft] if table.draft is not None else None,
        draft_max=table.draft_max,
        p_min=table.p_min,
        note=table.note,
        reported=Reported(table.reported.figure, table.reported.source) if table.reported else None,
        user=user,
    )


def _refuse(
    problems: list[tuple[tuple[str | int, ...], str]],
    user: dict[str, Any],
    user_file: Path | None,
) -> NoReturn:
    lines = [f"{key_path(loc)}: {text}" for loc, text in problems]
    named = str(user_file) if user_file and user else "models.toml of localspec"
    one = len(lines) == 1
    said = f"1 problem: {lines[0]}" if one else "\n".join([f"{len(lines)} problems:", *lines])
    raise ConfigError(
        f"{named} has {said}",
        hint="the layout is described in docs/pairs.md",
        file=named,
        problems=[{"key": key_path(loc), "problem": text} for loc, text in problems],
    )


def _parse(named: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{named} is not TOML: {error}", file=named) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", file=str(path)) from error


def _packaged_text() -> str:
    packaged = resources.files("localspec") / "models.toml"
    if not packaged.is_file():
        # An editable install: the file lies beside the package, in the repository's root.
        return _read(Path(__file__).resolve().parents[2] / "models.toml")
    return packaged.read_text(encoding="utf-8")


def _tables(data: dict[str, Any] | None, kind: str) -> set[str]:
    found = (data or {}).get(kind)
    return set(found) if isinstance(found, dict) else set()


def _folded(pair_id: str) -> str:
    return "".join(pair_id.split()).lower()
