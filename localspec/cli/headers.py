"""From MODEL and --draft to headers, without downloading what is not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localspec.cli.engine_options import DraftChoice
from localspec.hub.found_header import FoundHeader, find_header
from localspec.paths import Paths

if TYPE_CHECKING:
    from localspec.catalog.load import Catalog
    from localspec.hub.resolve import ResolvedPair


@dataclass(frozen=True, slots=True)
class FoundPair:
    """A pair of which only headers were read."""

    resolved: ResolvedPair
    target: FoundHeader
    draft: FoundHeader | None


def find_pair(
    name: str,
    draft: DraftChoice,
    catalog: Catalog,
    paths: Paths,
    budget: Callable[[ResolvedPair], int | None] = lambda _: None,
) -> FoundPair:
    """The headers of `name` and of the draft that `draft` chooses.

    budget: bytes for the target's weights, for choosing a quantisation where `name` names none.
    Raises UsageError, BadModelFile, DownloadError.
    """
    from localspec.ggufmeta.runnable import refuse_unrunnable
    from localspec.hub.resolve import resolve

    resolved = resolve(name, catalog, paths)
    if draft.model is not None:
        resolved = replace(resolved, draft=resolve(draft.model, catalog, paths).target)
    elif not draft.wants_model:
        resolved = replace(resolved, draft=None)
    target = find_header(resolved.target, paths, budget(resolved))
    refuse_unrunnable(target.header)
    if resolved.draft is None:
        return FoundPair(resolved, target, None)
    found = find_header(resolved.draft, paths)
    refuse_unrunnable(found.header)
    return FoundPair(resolved, target, found)
