"""Headers of files wherever they are: on this machine, or on the Hub without downloading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import DownloadError
from localspec.ggufmeta.header import Header, split_name
from localspec.paths import Paths

if TYPE_CHECKING:
    from localspec.hub.resolve import LocalFile, Missing


@dataclass(frozen=True, slots=True)
class FoundHeader:
    """The header of one file, and where it came from."""

    header: Header
    path: Path | None
    """The file, when it is on this machine."""
    data: tuple[bytes, ...] = ()
    """The beginning of each of its files, when it is not."""
    source: object = None
    """Its place on the Hub, when it is not here."""

    def ghost(self, folder: Path) -> Path:
        """A ghost of it in `folder`; the first file of a split model."""
        from localspec.ggufmeta.ghost import ghost_model, write_ghost
        from localspec.ggufmeta.source import BytesSource

        folder.mkdir(parents=True, exist_ok=True)
        if self.path is not None:
            return ghost_model(self.header, folder)
        count = len(self.data)
        first = folder / ("ghost.gguf" if count == 1 else f"ghost-00001-of-{count:05d}.gguf")
        for number, (beginning, part) in enumerate(
            zip(self.data, self.header.parts, strict=True), 1
        ):
            name = first.name if number == 1 else split_name(first.name, number)
            write_ghost(BytesSource(beginning, part.name), part, folder / name)
        return first


def find_header(file: LocalFile | Missing, paths: Paths, budget: int | None = None) -> FoundHeader:
    """The header of one file. budget: as for `fetch_header`. Raises BadModelFile, DownloadError."""
    from localspec.catalog.entries import HubSource
    from localspec.ggufmeta.header import read_header
    from localspec.hub.resolve import LocalFile

    if isinstance(file, LocalFile):
        return FoundHeader(read_header(file.path), file.path)
    if not isinstance(file.source, HubSource):
        raise DownloadError(
            f"{file.name} is not here, and only its file tells what is in it",
            hint=f"localspec pull {file.source}",
        )
    from localspec.hub.client import HubClient
    from localspec.hub.failures import RetryPolicy
    from localspec.hub.remote_header import fetch_header

    # A pull waits for a network that comes back; a question wants its answer now.
    quick = RetryPolicy(attempts=2, patient_attempts=1, base_s=0.5, longest_asked_s=5.0)
    remote = fetch_header(file.source, HubClient(quick), paths.cache, budget)
    return FoundHeader(remote.header, None, remote.data, remote.source)
