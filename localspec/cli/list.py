"""`localspec list`: the catalogue, what is downloaded of it, and what else is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli.output import Output
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.hub.inventory import Row


def command(
    output: Output,
    filter: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="Only what has this text in its name.")
    ] = "",
    local: Annotated[
        bool, typer.Option("--local", help="Only what is on this machine, wholly or in part.")
    ] = False,
) -> None:
    """Show the catalogue and the models on this machine."""
    from localspec.catalog.load import load_catalog
    from localspec.hub.inventory import inventory
    from localspec.paths import user_paths

    paths = user_paths()
    rows = [
        row
        for row in inventory(load_catalog(paths), paths)
        if filter.lower() in row.id.lower() and (row.present or not local)
    ]
    output.document([_as_json(row) for row in rows])
    output.table(
        ("PAIR", "METHOD", "SIZE", "DISK"),
        [(row.id, row.shown_method, _size(row), row.disk_mark) for row in rows],
        right=(2,),
    )
    if any(not row.built for row in rows):
        output.note("* this drafter is not built yet: the pair runs with the n-gram drafter")


def _size(row: Row) -> str:
    return "?" if row.size is None else format_file_size(row.size)


def _as_json(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "method": row.method,
        "built": row.built,
        "target": row.target,
        "draft": row.draft,
        "fits": None,
        "headroom": None,
        "measured_speedup": None,
    }
