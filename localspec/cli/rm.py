"""`localspec rm`: delete the files of a pair that nobody else needs."""

from __future__ import annotations

from typing import Annotated

import typer

from localspec.cli.output import Output
from localspec.units import format_file_size


def command(
    output: Output,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A pair, or owner/repo[:quant-or-file].")
    ],
) -> None:
    """Delete the downloaded files of a model; a file that another pulled pair needs stays."""
    from localspec.catalog.load import load_catalog
    from localspec.errors import UsageError
    from localspec.hub.remove import remove
    from localspec.hub.resolve import resolve
    from localspec.paths import user_paths

    paths = user_paths()
    resolved = resolve(model, load_catalog(paths), paths)
    going = [removal for removal in remove(resolved, dry_run=True) if not removal.kept_because]
    if going:
        size = format_file_size(sum(removal.freed for removal in going))
        names = " and ".join(dict.fromkeys(removal.path.name for removal in going))
        if not output.confirm(f"Delete {names}, {size}?"):
            raise UsageError(
                f"nothing was deleted: {names}, {size}, would go",
                hint="--yes answers the question",
                files=[str(removal.path) for removal in going],
            )
    removals = remove(resolved)
    freed = sum(removal.freed for removal in removals)
    output.document({"id": model, "freed": freed, "files": removals})
    for removal in removals:
        if removal.kept_because:
            output.line(f"{removal.role:<7} kept: {removal.kept_because}  {removal.path}")
        else:
            size = format_file_size(removal.freed)
            output.line(f"{removal.role:<7} {size:>9} freed  {removal.path}")
