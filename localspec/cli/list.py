"""`localspec list`: the catalogue, what is downloaded of it, what else is here, what drafts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli.drafts_table import show_drafts
from localspec.cli.output import Output
from localspec.units import format_bytes, format_file_size

if TYPE_CHECKING:
    from localspec.catalog.load import Catalog
    from localspec.errors import UsageError
    from localspec.hub.inventory import Row
    from localspec.paths import Paths


def command(
    output: Output,
    what: Annotated[
        str,
        typer.Argument(metavar="[TEXT]", help="Only what has this text in its name; or a folder."),
    ] = "",
    for_: Annotated[
        str,
        typer.Option("--for", metavar="MODEL", help="Show what could draft for this model."),
    ] = "",
    local: Annotated[
        bool, typer.Option("--local", help="Only what is on this machine, wholly or in part.")
    ] = False,
    online: Annotated[
        bool, typer.Option("--online/--offline", help="With --for: whether to ask the Hub too.")
    ] = True,
) -> None:
    """Show the catalogue and the models on this machine."""
    from localspec.catalog.load import load_catalog
    from localspec.paths import user_paths

    paths = user_paths()
    catalog = load_catalog(paths)
    if for_:
        show_drafts(for_, catalog, paths, output, online=online)
        return
    output.status("looking at model files")
    rows = _rows(what, local, catalog, paths)
    speedups = _measured(rows, paths)
    headroom = _headroom(rows, paths)
    output.document([_as_json(row, speedups.get(row.id), headroom.get(row.id)) for row in rows])
    if not rows:
        output.note(_nothing(what, local))
        return
    _show(rows, speedups, headroom, output)


def _rows(what: str, local: bool, catalog: Catalog, paths: Paths) -> list[Row]:
    from localspec.hub.inventory import inventory, model_rows
    from localspec.hub.local_models import models_below

    folder = Path(what).expanduser()
    if what and folder.is_dir():
        return model_rows(models_below(folder), paths)
    named = [row for row in inventory(catalog, paths) if what.lower() in row.id.lower()]
    if not named and _is_path(what):
        raise _no_folder(folder)
    return [row for row in named if row.present or not local]


def _is_path(text: str) -> bool:
    """Whether `text` can only be a path; `owner/repo` may be part of a name."""
    return re.match(r"[/\\~]|\.\.?[/\\]|[A-Za-z]:[/\\]|.*[/\\]$", text) is not None


def _no_folder(path: Path) -> UsageError:
    from localspec.errors import UsageError

    if path.exists():
        said, hint = f"{path} is not a folder", f"localspec list {path.parent}"
    else:
        said, hint = f"{path}: no such folder", "name one that is there, or part of a model's name"
    return UsageError(said, hint=hint, path=str(path))


def _nothing(what: str, local: bool) -> str:
    if what and Path(what).expanduser().is_dir():
        return f"there is no model file in {what}"
    where = "on this machine" if local else "in the catalogue or on this machine"
    return f"no model {where}" + (f" has {what!r} in its name" if what else "")


def _measured(rows: list[Row], paths: Paths) -> dict[str, float]:
    """Speed-ups that `bench` measured on this machine."""
    if not (paths.data / "bench").is_dir():
        # Knowing the machine takes time; without a result there is nothing to know it for.
        return {}
    from localspec.bench.history import measured_speedups

    return measured_speedups([row.id for row in rows], paths=paths)


def _headroom(rows: list[Row], paths: Paths) -> dict[str, int]:
    """Bytes left over on this machine, for every row whose files are all here; negative is what
    is missing. `localspec fit --all` tells it of the others."""
    files = {
        row.id: [file.path for file in row.files if file.path is not None]
        for row in rows
        if row.disk_mark == "all" and (row.header is None or not row.header.problem)
    }
    if not files:
        return {}
    from localspec.cli.memory_glance import RequiredMemory, quick_machine, usable_memory

    required = RequiredMemory(paths)
    usable = usable_memory(quick_machine())
    found = {id_: required.of(paths_) for id_, paths_ in files.items()}
    required.save()
    return {id_: usable - needed for id_, needed in found.items() if needed is not None}


def _show(
    rows: list[Row], speedups: dict[str, float], headroom: dict[str, int], output: Output
) -> None:
    output.table(
        ("MODEL", "METHOD", "SIZE", "FITS", "DISK", "GAIN", "WHAT IT IS"),
        [
            (
                row.id,
                row.shown_method,
                "?" if row.size is None else format_file_size(row.size),
                _fits(headroom.get(row.id)),
                _disk(row),
                f"{speedups[row.id]:.2f}x" if row.id in speedups else "-",
                _what(row),
            )
            for row in rows
        ],
        right=(2, 5),
    )
    used = sum(file.size or 0 for file in _files_once(rows))
    output.note(f"{format_file_size(used)} on this machine")
    if any(not row.built for row in rows):
        output.note("* this drafter is not built yet: the pair runs with the n-gram drafter")


def _files_once(rows: list[Row]) -> list[Any]:
    """The files on this machine, a shared one once."""
    return list({f.path: f for row in rows for f in row.files if f.on_disk}.values())


def _what(row: Row) -> str:
    """One clause: whose folder it lies in, what its header says, what was reported."""
    places = {file.found_in for file in row.files if file.on_disk} - {"localspec", "path", None}
    said = [f"in {place}" for place in sorted(filter(None, places))]
    if row.header is not None:
        from localspec.hub.draft_candidates import format_parameters

        header, size = row.header, format_parameters(row.header.n_parameters)
        said.append(header.problem or f"{header.architecture}, {size}")
    if row.pair is not None and row.pair.reported is not None:
        said.append(f"reported: {row.pair.reported.figure} ({row.pair.reported.source})")
    return "; ".join(said)


def _disk(row: Row) -> str:
    """`all`, `part, 0.5 GB`, or a dash."""
    if row.disk_mark != "part":
        return row.disk_mark
    return f"part, {format_file_size(row.disk_use)}"


def _fits(headroom: int | None) -> str:
    """`yes, 4.2 GiB left`, `no, 1.1 GiB short`, or a dash: never a colour alone."""
    if headroom is None:
        return "-"
    if headroom >= 0:
        return f"yes, {format_bytes(headroom)} left"
    return f"no, {format_bytes(-headroom)} short"


def _as_json(row: Row, speedup: float | None, headroom: int | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "method": row.method,
        "built": row.built,
        "target": row.target,
        "draft": row.draft,
        "disk_use": row.disk_use,
        "fits": None if headroom is None else headroom >= 0,
        "headroom": headroom,
        "measured_speedup": speedup,
        "reported": row.pair.reported if row.pair is not None else None,
        "note": row.pair.note if row.pair is not None else "",
        "header": row.header,
    }
