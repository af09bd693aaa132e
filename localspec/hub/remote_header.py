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


def fetch_header(source: HubSource, client: HubClient, cache: Path | None = None) -> RemoteHeader:
    """The header of the model at `source`, all its parts.

    cache: folder that keeps headers by the etag of their file, for the next time.
    Raises DownloadError, and BadModelFile for what is not GGUF.
    """
    if source.filename is None:
        source = name_file(source, client)
    headers, data, fetched = [], [], 0
    for name in part_names(source.filename or ""):
        part = replace(source, filename=name)
        remote = client.file(part)
        kept = _kept(cache, remote)
        if kept is None:
            header, beginning, came = _read(remote, client)
            fetched += came
            _keep(cache, remote, beginning)
        else:
            beginning = kept
            header = parse_header(BytesSource(kept, str(part), remote.size))
        headers.append(header)
        data.append(beginning)
    first = headers[0]
    joined = join_headers(first, headers[1:]) if len(headers) > 1 else first
    return RemoteHeader(source, joined, tuple(data), fetched)


def name_file(source: HubSource, client: HubClient) -> HubSource:
    """`source` with the file that its quantisation, or the usual choice, means.

    Raises DownloadError when the repository has none.
    """
    repository = client.repository(source.repo, source.revision)
    found = variants(repository.files)
    chosen = with_quant(found, source.quant) if source.quant else choose(found)
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


def _path(cache: Path, remote: RemoteFile) -> Path:
    key = f"{remote.etag} {remote.size}".encode()
    return cache / "headers" / f"{hashlib.sha256(key).hexdigest()[:32]}.gguf-header"


def _kept(cache: Path | None, remote: RemoteFile) -> bytes | None:
    if cache is None:
        return None
    try:
        return _path(cache, remote).read_bytes()
    except OSError:
        return None


def _keep(cache: Path | None, remote: RemoteFile, beginning: bytes) -> None:
    if cache is None:
        return
    path = _path(cache, remote)
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(beginning)
        partial.replace(path)
    except OSError:
        # A cache that cannot be written costs a second read, nothing else.
        return
