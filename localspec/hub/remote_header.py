"""The header of a file that is still on the Hub, read by ranges: a few megabytes at most."""

from __future__ import annotations

from localspec.catalog.entries import HubSource
from localspec.ggufmeta.header import Header, parse_header
from localspec.ggufmeta.source import RangeSource
from localspec.hub.client import HubClient


def read_remote_header(source: HubSource, client: HubClient) -> Header:
    """The header of one file, for a split model of its first part only.

    Raises DownloadError when it cannot be had, BadModelFile when it is no GGUF.
    """
    remote = client.file(source)

    def fetch(offset: int, length: int) -> bytes:
        return client.read_range(remote, offset, length)

    return parse_header(RangeSource(str(source), remote.size, fetch))
