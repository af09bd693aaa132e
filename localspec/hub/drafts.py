"""Which models could draft for a target: on this machine, in the catalogue, on the Hub."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.catalog.entries import HubSource, PathSource
from localspec.catalog.load import Catalog
from localspec.errors import BadModelFile, DownloadError
from localspec.ggufmeta.compatibility import check_pair, explain
from localspec.ggufmeta.header import Header, read_header
from localspec.hub.client import HubClient, is_offline
from localspec.hub.headers import HeaderCache
from localspec.hub.local_models import LocalModel, local_models, models_below
from localspec.hub.quants import choose, variants
from localspec.hub.remote_header import fetch_header
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair, locate
from localspec.hub.store import Store
from localspec.paths import Paths

GOOD_RATIO = 0.2
"""A draft of at most a fifth of the target's size is about five times faster: what pays."""
_LARGEST_RATIO = 0.6
"""Beyond that a draft costs more than it can win."""
_SIZE_IN_NAME = re.compile(
    r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s?([bm])(?![A-Za-z0-9])", re.IGNORECASE
)
_MOST_ON_THE_HUB = 5


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """One model or head that could draft."""

    name: str
    """What `--draft` or `pair add` may be given."""
    method: str
    """`draft` for a model; `mtp`, `eagle3`, `dflash`, `dspark` for a head of the target."""
    found: str
    """`disk`, `catalogue`, `repository` or `Hub`."""
    on_disk: bool
    size: int | None
    """Bytes; None when nobody said."""
    ratio: float | None
    """Size over the target's; None when one of them is not known."""
    vocabulary: str
    """`identical`, `compatible`, or `unchecked` where no header could be read."""
    measured_speedup: float | None = None
    """Of a pair with this draft on this machine; None when `bench` has none."""

    @property
    def small_enough(self) -> bool:
        return self.ratio is not None and self.ratio <= GOOD_RATIO


@dataclass(frozen=True, slots=True)
class DraftSearch:
    """What a search found."""

    target: str
    candidates: tuple[DraftCandidate, ...]
    """Best first: measured ones by what they won, then those of a fifth or less, smallest first."""
    refused: tuple[tuple[str, str], ...] = ()
    """Near candidates whose vocabulary does not fit, with the reason."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Finding:
    """A search in progress."""

    cache: Path
    """Folder that keeps headers read from the Hub."""
    target_size: int | None
    target_header: Header | None
    target_vocabulary: str
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
        try:
            _from_repository(finding, resolved, online)
            _from_hub(finding, resolved, online)
        except DownloadError as error:
            finding.notes.append(f"the Hub was not asked to the end: {error.message}")
    ranked = sorted(finding.candidates.values(), key=_rank)
    return DraftSearch(
        resolved.id, tuple(ranked), tuple(finding.refused.items()), tuple(finding.notes)
    )


def _rank(candidate: DraftCandidate) -> tuple[float, bool, bool, float, str]:
    return (
        -(candidate.measured_speedup or 0.0),
        candidate.method != "draft",
        not candidate.small_enough,
        candidate.ratio if candidate.ratio is not None else 1.0,
        candidate.name,
    )


def _begin(resolved: ResolvedPair, paths: Paths, client: HubClient | None) -> _Finding:
    target = resolved.target
    if isinstance(target, LocalFile):
        with HeaderCache(paths) as headers:
            vocabulary = headers.summary(target.path).vocabulary
        return _Finding(paths.cache, target.size, read_header(target.path), vocabulary)
    finding = _Finding(paths.cache, target.size, None, "")
    if client is not None and isinstance(target.source, HubSource) and target.source.filename:
        try:
            finding.target_size = client.file(target.source).size
            finding.target_header = fetch_header(target.source, client, paths.cache).header
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
    family = _family(resolved.target.name)
    for pair in catalog.pairs.values():
        if pair.draft is None:
            continue
        same = pair.target.source == resolved.target.source
        if not same and (pair.method != "draft" or _family(pair.target.shown) != family):
            continue
        located = locate(pair.draft, store)
        if located.source == resolved.target.source:
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
            if not summary.vocabulary or _too_large(finding, model.size):
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
    family = _family(resolved.target.name)
    target_parameters = _parameters(resolved.target.name)
    if not family or target_parameters is None:
        return
    tried = 0
    for repo in client.search(family, limit=60):
        parameters = _parameters(repo.rsplit("/", 1)[-1])
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


def _too_large(finding: _Finding, size: int) -> bool:
    return finding.target_size is not None and size > _LARGEST_RATIO * finding.target_size


def _sizes_near(finding: _Finding, n_vocab: int) -> bool:
    """Whether it is worth reading a whole vocabulary: the rule allows 128 tokens of difference."""
    header = finding.target_header
    tokens = header.array("tokenizer.ggml.tokens") if header is not None else None
    return tokens is not None and abs(tokens.count - n_vocab) <= 128


def _family(name: str) -> str:
    """`qwen3` of `Qwen_Qwen3-32B-Q4_K_M`: what the names of one vocabulary have in common."""
    stem = name.rsplit("/", 1)[-1]
    stem = stem.split("_", 1)[1] if re.match(r"[A-Za-z]+_[A-Za-z]", stem) else stem
    match = re.match(r"(?:Meta-)?([A-Za-z]+[\d.]*(?:-?\d+(?:\.\d+)?(?![\dBbMm.]))?)", stem)
    family = match[1].lower().rstrip(".-") if match else ""
    # Llama 3 to 3.3 share one vocabulary; Qwen3 and Qwen3.5 do not.
    return re.sub(r"^llama-3\.\d$", "llama-3", family)


def _parameters(name: str) -> float | None:
    """Parameters that a name tells: `0.6B`, `270m`."""
    found = _SIZE_IN_NAME.search(name.replace("_", " ").replace("-", " "))
    if found is None:
        return None
    return float(found[1]) * (1e9 if found[2].lower() == "b" else 1e6)
