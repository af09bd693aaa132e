"""Which models could draft for a target: on this machine, in the catalogue, on the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.catalog.entries import HubSource, PathSource, Source
from localspec.catalog.load import Catalog
from localspec.errors import BadModelFile, DownloadError
from localspec.ggufmeta.compatibility import check_pair, explain
from localspec.ggufmeta.header import Header, read_header
from localspec.ggufmeta.vocabulary import fingerprint
from localspec.hub.client import HubClient, is_offline
from localspec.hub.draft_candidates import (
    GOOD_RATIO,
    DraftCandidate,
    DraftSearch,
    family_of,
    parameter_count,
    parameters_of,
    rank,
)
from localspec.hub.headers import HeaderCache
from localspec.hub.local_models import LocalModel, local_models, models_below
from localspec.hub.quants import choose, variants
from localspec.hub.remote_header import fetch_header
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair, locate
from localspec.hub.store import Store
from localspec.paths import Paths

_LARGEST_RATIO = 0.6
"""Of bytes and of parameters: beyond that a draft costs more than it can win."""
_MOST_ON_THE_HUB = 5


@dataclass(slots=True)
class _Finding:
    """A search in progress."""

    cache: Path
    """Folder that keeps headers read from the Hub."""
    target_size: int | None
    target_header: Header | None
    target_vocabulary: str
    target_source: Source
    """With the name of the file where the Hub told which one a repository or quantisation means."""
    candidates: dict[str, DraftCandidate] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_drafts(
    resolved: ResolvedPair,
    catalog: Catalog,
    paths: Paths,
    *,
    client: HubClient | None = None,
    measured: Mapping[str, float] | None = None,
) -> DraftSearch:
    """Candidates for the target of `resolved`, those with a foreign vocabulary left out.

    client: asks the Hub as well; None, or offline mode, looks on this machine and in the
    catalogue only. measured: speed-ups on this machine by pair id.
    """
    online = client if client is not None and not is_offline() else None
    finding = _begin(resolved, paths, online)
    _from_catalogue(finding, resolved, catalog, Store(paths.models), measured or {}, online)
    _from_disk(finding, resolved, paths)
    if online is not None:
        # One that fails says nothing of the other: a repository may be gone or closed.
        for search in (_from_repository, _from_hub):
            try:
                search(finding, resolved, online)
            except DownloadError as error:
                finding.notes.append(f"the Hub was not asked to the end: {error.message}")
    ranked = sorted(finding.candidates.values(), key=rank)
    return DraftSearch(
        resolved.id, tuple(ranked), tuple(finding.refused.items()), tuple(finding.notes)
    )


def _begin(resolved: ResolvedPair, paths: Paths, client: HubClient | None) -> _Finding:
    target = resolved.target
    if isinstance(target, LocalFile):
        with HeaderCache(paths) as headers:
            vocabulary = headers.summary(target.path).vocabulary
        header = read_header(target.path)
        return _Finding(paths.cache, target.size, header, vocabulary, target.source)
    finding = _Finding(paths.cache, target.size, None, "", target.source)
    if client is not None and isinstance(target.source, HubSource):
        try:
            remote = fetch_header(target.source, client, paths.cache)
            finding.target_source = remote.source
            finding.target_header = remote.header
            finding.target_size = sum(part.full_size for part in remote.header.parts)
            finding.target_vocabulary = fingerprint(remote.header)
        except (DownloadError, BadModelFile) as error:
            finding.notes.append(f"the target's header could not be read: {error.message}")
    if finding.target_header is None:
        finding.notes.append("without the target's header no vocabulary can be checked")
    return finding


def _from_catalogue(
    finding: _Finding,
    resolved: ResolvedPair,
    catalog: Catalog,
    store: Store,
    measured: Mapping[str, float],
    client: HubClient | None,
) -> None:
    """Drafts of pairs with this target, and of pairs whose target is of the same family."""
    family = family_of(resolved.target.name)
    for pair in catalog.pairs.values():
        if pair.draft is None:
            continue
        same = pair.target.source == resolved.target.source
        if not same and (pair.method != "draft" or family_of(pair.target.shown) != family):
            continue
        located = locate(pair.draft, store)
        if located.source in (resolved.target.source, finding.target_source):
            continue
        if isinstance(located, LocalFile) and isinstance(located.source, PathSource):
            located = replace(located, name=str(located.path))
        speedup = measured.get(pair.id) if same else None
        if pair.method == "draft":
            _consider(finding, located, "catalogue", speedup, client)
        else:
            _add(finding, located, pair.method, "catalogue", "unchecked", speedup)


def _from_disk(finding: _Finding, resolved: ResolvedPair, paths: Paths) -> None:
    own = resolved.target.path.resolve() if isinstance(resolved.target, LocalFile) else None
    with HeaderCache(paths) as headers:
        for model in _on_disk(resolved, paths):
            if model.path.resolve() == own:
                continue
            summary = headers.summary(model.path, model.stat)
            if not summary.vocabulary or _too_large(finding, model.size, summary.n_parameters):
                continue
            source = PathSource(model.path)
            local = LocalFile(model.path, model.size, model.found_in, source, model.name)
            if summary.vocabulary == finding.target_vocabulary:
                _add(finding, local, "draft", "disk", "identical", None)
            elif _sizes_near(finding, summary.n_vocab):
                _consider(finding, local, "disk", None, None)


def _on_disk(resolved: ResolvedPair, paths: Paths) -> list[LocalModel]:
    """What lies where models lie, and beside the target."""
    found = local_models(paths)
    target = resolved.target
    if isinstance(target, LocalFile) and target.found_in == "path":
        known = {model.path.resolve() for model in found}
        beside = models_below(target.path.resolve().parent)
        found += [model for model in beside if model.path.resolve() not in known]
    return found


def _from_repository(finding: _Finding, resolved: ResolvedPair, client: HubClient) -> None:
    """Heads beside the target in its repository: `mtp-`, `eagle3-`, `dflash-`, `dspark-`."""
    source = resolved.target.source
    if not isinstance(source, HubSource):
        return
    for variant in variants(client.repository(source.repo, source.revision).files):
        if variant.head:
            named = HubSource(source.repo, variant.path, source.revision)
            file = Missing(named, str(named), variant.size or None, None)
            _add(finding, file, variant.head, "repository", "unchecked", None)


def _from_hub(finding: _Finding, resolved: ResolvedPair, client: HubClient) -> None:
    """Small models of the same family, most downloaded first."""
    family = family_of(resolved.target.name)
    target_parameters = parameters_of(resolved.target.name)
    if target_parameters is None and finding.target_header is not None:
        target_parameters = parameter_count(finding.target_header)
    if not family or target_parameters is None:
        return
    tried = 0
    for repo in client.search(family, limit=60):
        parameters = parameters_of(repo.rsplit("/", 1)[-1])
        if parameters is None or parameters > GOOD_RATIO * target_parameters:
            continue
        if tried == _MOST_ON_THE_HUB:
            break
        tried += 1
        chosen = choose(variants(client.repository(repo).files))
        if chosen is not None:
            named = HubSource(repo, chosen.path)
            file = Missing(named, str(named), chosen.size or None, None)
            _consider(finding, file, "Hub", None, client)


def _consider(
    finding: _Finding,
    file: LocalFile | Missing,
    found: str,
    speedup: float | None,
    client: HubClient | None,
) -> None:
    """Add `file` if its vocabulary fits; without a header it is added as unchecked."""
    key, name = _key(file), _name(file)
    if key in finding.candidates or name in finding.refused:
        return
    header = _header(finding, file, client)
    if header is not None and _too_large(finding, file.size, parameter_count(header)):
        return
    if header is None or finding.target_header is None:
        _add(finding, file, "draft", found, "unchecked", speedup)
        return
    try:
        result = check_pair(finding.target_header, header)
    except BadModelFile as error:
        finding.refused[name] = error.message
        return
    if result.difference is not None:
        finding.refused[name] = explain(result.difference)
        return
    vocabulary = "identical" if result.identical else "compatible"
    _add(finding, file, "draft", found, vocabulary, speedup)


def _add(
    finding: _Finding,
    file: LocalFile | Missing,
    method: str,
    found: str,
    vocabulary: str,
    speedup: float | None,
) -> None:
    size = file.size
    ratio = size / finding.target_size if size and finding.target_size else None
    if method == "draft" and ratio is not None and ratio > _LARGEST_RATIO:
        return
    on_disk = isinstance(file, LocalFile)
    finding.candidates.setdefault(
        _key(file),
        DraftCandidate(_name(file), method, found, on_disk, size, ratio, vocabulary, speedup),
    )


def _header(
    finding: _Finding, file: LocalFile | Missing, client: HubClient | None
) -> Header | None:
    try:
        if isinstance(file, LocalFile):
            return read_header(file.path)
        if client is not None and isinstance(file.source, HubSource) and file.source.filename:
            return fetch_header(file.source, client, finding.cache).header
    except (BadModelFile, DownloadError):
        return None
    return None


def _name(file: LocalFile | Missing) -> str:
    return file.name if isinstance(file.source, PathSource) else str(file.source)


def _key(file: LocalFile | Missing) -> str:
    """The same for the same file, however it was found."""
    return str(file.path.resolve()) if isinstance(file, LocalFile) else str(file.source)


def _too_large(finding: _Finding, size: int | None, n_parameters: int) -> bool:
    """By bytes or by parameters: the target itself in fewer bits is no draft for it."""
    if size and finding.target_size and size > _LARGEST_RATIO * finding.target_size:
        return True
    header = finding.target_header
    return header is not None and n_parameters > _LARGEST_RATIO * parameter_count(header)


def _sizes_near(finding: _Finding, n_vocab: int) -> bool:
    """Whether it is worth reading a whole vocabulary: the rule allows 128 tokens of difference."""
    header = finding.target_header
    tokens = header.array("tokenizer.ggml.tokens") if header is not None else None
    return tokens is not None and abs(tokens.count - n_vocab) <= 128
