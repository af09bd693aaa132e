"""The header of a model on the Hub, read without the model: as few bytes as the header has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.catalog.entries import HubSource
from localspec.errors import DownloadError
from localspec.ggufmeta.header import Header, join_headers, parse_header
from localspec.ggufmeta.source import BytesSource
from localspec.hub.client import HubClient, RemoteFile
from localspec.hub.failures import outside_errors
from localspec.hub.quants import Variant, choose, part_names, variants, with_quant
from localspec.whole_file import write_whole

_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class RemoteHeader:
    """A header with the bytes it was read from."""

    source: HubSource
    header: Header
    data: tuple[bytes, ...]
    """The beginning of each file, header and padding: what a ghost is made of."""
    fetched: int
    """Bytes that came over the network."""


def fetch_header(
    source: HubSource, client: HubClient, cache: Path | None = None, budget: int | None = None
) -> RemoteHeader:
    """The header of the model at `source`, all its parts.

    cache: folder that keeps headers for the next time, and for when the Hub is out of reach.
    budget: bytes for weights, for choosing a quantisation where `source` names none.
    Raises DownloadError, and BadModelFile for what is not GGUF.
    """
    if source.filename is None:
        source = name_file(source, client, budget)
    headers, data, fetched = [], [], 0
    for name in part_names(source.filename or ""):
        header, beginning, came = _one(replace(source, filename=name), client, cache)
        headers.append(header)
        data.append(beginning)
        fetched += came
    first = headers[0]
    joined = join_headers(first, headers[1:]) if len(headers) > 1 else first
    return RemoteHeader(source, joined, tuple(data), fetched)


def _one(source: HubSource, client: HubClient, cache: Path | None) -> tuple[Header, bytes, int]:
    """Header of one file, the bytes it takes, and how many came over the network."""
    try:
        remote = client.file(source)
    except DownloadError as error:
        kept = _kept_without_asking(cache, source)
        if kept is None or error.fields.get("status") is not None:
            raise
        return parse_header(BytesSource(kept[0], str(source), kept[1])), kept[0], 0
    beginning = _kept(cache, remote)
    if beginning is not None:
        return parse_header(BytesSource(beginning, str(source), remote.size)), beginning, 0
    header, beginning, came = _read(remote, client)
    _keep(cache, remote, beginning)
    return header, beginning, came


def name_file(source: HubSource, client: HubClient, budget: int | None = None) -> HubSource:
    """`source` with the file that its quantisation means, or the one a pull would choose.

    budget: bytes for weights; None takes the usual quantisation.
    Raises DownloadError when the repository has none.
    """
    repository = client.repository(source.repo, source.revision)
    found = variants(repository.files)
    chosen = with_quant(found, source.quant) if source.quant else choose(found, budget)
    if chosen is None:
        names = ", ".join(sorted({variant.quant or variant.path for variant in found}))
        raise DownloadError(
            f"{source} names no GGUF file", hint=f"it has {names}" if names else "it has none"
        )
    return replace(source, repo=repository.repo, filename=chosen.path, quant=None)


def other_quants(source: HubSource, client: HubClient) -> list[Variant]:
    """The other models of the same repository, largest first."""
    found = variants(client.repository(source.repo, source.revision).files)
    others = [v for v in found if v.path != source.filename and v.size and v.quant and not v.head]
    return sorted(others, key=lambda variant: -variant.size)


class _Stream:
    """The beginning of a remote file, read from one response as far as it is asked for."""

    chunk = 256 * 1024

    def __init__(self, remote: RemoteFile, blocks: Iterator[bytes]) -> None:
        self._remote, self._blocks = remote, blocks
        self.data = bytearray()

    @property
    def name(self) -> str:
        return str(self._remote.source)

    @property
    def size(self) -> int | None:
        return self._remote.size

    def read(self, offset: int, length: int) -> bytes:
        while len(self.data) < offset + length:
            block = next(self._blocks, b"")
            if not block:
                break
            self.data += block
        return bytes(self.data[offset : offset + length])


def _read(remote: RemoteFile, client: HubClient) -> tuple[Header, bytes, int]:
    failures = 0
    while True:
        try:
            with client.stream(remote, 0) as (response, _):
                stream = _Stream(remote, response.iter_raw(_BLOCK))
                header = parse_header(stream)
                needed = header.parts[0].header_size
                stream.read(0, needed)
                return header, bytes(stream.data[:needed]), len(stream.data)
        except outside_errors() as error:
            failures += 1
            client.pause_after(error, failures, remote.source)


def _folder(cache: Path) -> Path:
    return cache / "headers"


def _stem(source: HubSource) -> str:
    return hashlib.sha256(str(source).encode()).hexdigest()[:24]


def _path(cache: Path, remote: RemoteFile) -> Path:
    etag = hashlib.sha256(remote.etag.encode()).hexdigest()[:16]
    return _folder(cache) / f"{_stem(remote.source)}-{etag}-{remote.size}.gguf-header"


def _kept(cache: Path | None, remote: RemoteFile) -> bytes | None:
    if cache is None:
        return None
    try:
        return _path(cache, remote).read_bytes()
    except OSError:
        return None


def _kept_without_asking(cache: Path | None, source: HubSource) -> tuple[bytes, int] | None:
    """The newest header kept of `source`, and the size of its file; for when the Hub is away."""
    if cache is None:
        return None
    try:
        found = [
            (path.stat().st_mtime, path)
            for path in _folder(cache).glob(f"{_stem(source)}-*.gguf-header")
        ]
        if not found:
            return None
        path = max(found)[1]
        return path.read_bytes(), int(path.name.split(".")[0].rsplit("-", 1)[1])
    except (OSError, ValueError):
        return None


def _keep(cache: Path | None, remote: RemoteFile, beginning: bytes) -> None:
    if cache is None:
        return
    path = _path(cache, remote)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, beginning)
    except OSError:
        # A cache that cannot be written costs a second read, nothing else.
        return
