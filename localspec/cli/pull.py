"""`localspec pull`: both files of a pair, verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli.output import Output
from localspec.cli.pulling import pull_with_progress
from localspec.units import format_file_size

if TYPE_CHECKING:
    from localspec.hub.plan import PullPlan


def command(
    output: Output,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A pair, or owner/repo[:quant-or-file].")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be downloaded, and stop.")
    ] = False,
) -> None:
    """Download a model and its draft: resumable, both at once, verified by sha256."""
    from localspec.catalog.load import load_catalog
    from localspec.cli.memory_glance import weight_budget
    from localspec.hub.pull import plan_pull
    from localspec.hub.resolve import resolve
    from localspec.paths import user_paths

    paths = user_paths()
    resolved = resolve(model, load_catalog(paths), paths)
    plan = plan_pull(resolved, memory_budget=weight_budget(resolved, paths))
    for note in plan.notes:
        output.note(f"{resolved.id}: {note}")
    if dry_run:
        _show_plan(output, plan)
        return
    pulled = pull_with_progress(plan, output)
    output.json_line({"files": pulled})
    for file in pulled:
        how = "downloaded" if file.downloaded_bytes else "was here already"
        if file.resumed:
            how = f"resumed, {format_file_size(file.downloaded_bytes)} downloaded"
        output.line(f"{file.role:<7} {format_file_size(file.size):>9}  {how}  {file.path}")


def _show_plan(output: Output, plan: PullPlan) -> None:
    output.document(
        {
            "id": plan.id,
            "to_fetch": plan.to_fetch,
            "files": [
                {
                    "role": file.role,
                    "name": file.name,
                    "source": str(file.source),
                    "path": file.path,
                    "on_disk": file.on_disk,
                    "size": file.size,
                    "sha256": file.sha256,
                    "to_fetch": file.to_fetch,
                }
                for file in plan.files
            ],
        }
    )
    for file in plan.files:
        what = "here already" if file.on_disk else "to download"
        size = format_file_size(file.size)
        output.line(f"{file.role:<7} {size:>9}  {what:<12}  {file.source}")
    output.line(f"total   {format_file_size(plan.to_fetch):>9}  to download")
