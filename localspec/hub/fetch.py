"""One file from the Hub: resumed where it broke off, verified, then given its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import HubSource
from localspec.errors import DownloadError
from localspec.hub.client import HubClient, RemoteFile
from localspec.hub.failures import TransferBroken, outside_errors, status_of
from localspec.hub.partial import PartialFile
from localspec.hub.progress import FileProgress
from localspec.hub.store import Store, storage_errors
from localspec.hub.xet import receive_by_xet, wants_xet
from localspec.units import format_file_size


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is whole and verified under its final name."""

    path: Path
    size: int
    sha256: str
    downloaded_bytes: int
    """Bytes that came over the network, repeated ones included."""
    resumed: bool
    """Whether bytes of an earlier try were used."""


class _Paused(Exception):
    """The user paused: the connection is closed, the bytes stay."""


def fetch_hub_file(
    source: HubSource,
    *,
    sha256: str | None,
    store: Store,
    progress: FileProgress,
    client: HubClient,
) -> Fetched:
    """Fetch `source` to its place in the store.

    sha256: what it must be; None takes the Hub's own word for it. The caller holds the lock of
    the file. Raises DownloadError, and Cancelled; in both cases what arrived is kept, unless it
    is proved wrong.
    """
    final = store.path_for(source)
    with storage_errors(final), PartialFile(store.partial_for(final)) as partial:
        transfer = _Transfer(source, sha256, partial, progress, client)
        remote = transfer.run()
        expected = _expected(remote, sha256)
        if partial.sha256 != expected and transfer.resumed:
            # Bytes of an earlier try may have been damaged on the disk: once more, from the start.
            partial.restart()
            transfer.resumed = False
            remote = transfer.run()
            expected = _expected(remote, sha256)
        if partial.sha256 != expected:
            found = partial.sha256
            partial.delete()
            raise DownloadError(
                f"{source} has sha256 {found}, not {expected}",
                hint="the bytes were damaged on the way and are deleted; pull again",
                expected=expected,
                found=found,
            )
        partial.close()
        store.finish(partial.path, final, origin=str(source), sha256=expected, commit=remote.commit)
        partial.forget()
        progress.start("done", remote.size, remote.size)
        return Fetched(final, remote.size, expected, transfer.downloaded, transfer.resumed)


class _Transfer:
    """The attempts at one file."""

    def __init__(
        self,
        source: HubSource,
        sha256: str | None,
        partial: PartialFile,
        progress: FileProgress,
        client: HubClient,
    ) -> None:
        self._source = source
        self._sha256 = sha256
        self._partial = partial
        self._progress = progress
        self._client = client
        self.downloaded = 0
        self.resumed = False
        self._furthest = partial.size
        self._xet_failed = False

    def run(self) -> RemoteFile:
        """Attempt until every byte is there; the version that they are."""
        failures = 0
        while True:
            try:
                return self._attempt()
            except _Paused:
                self._progress.start("waiting", self._partial.size)
                self._client.control.wait_until_running()
            except outside_errors() as error:
                if status_of(error) == 416:
                    # The server has less than we do: what we have is of something else.
                    self._partial.restart()
                    error = TransferBroken("the server does not have the range asked for")
                # Only new ground counts: a server that breaks off at the same place every time,
                # or sends everything again and again, must not keep us for ever.
                failures = 1 if self._partial.hashed > self._furthest else failures + 1
                self._furthest = max(self._furthest, self._partial.hashed)
                self._progress.start("waiting", self._partial.hashed)
                self._client.pause_after(error, failures, self._source)

    def _attempt(self) -> RemoteFile:
        control = self._client.control
        control.wait_until_running()
        remote = self._client.file_once(self._source)
        _expected(remote, self._sha256)
        partial = self._partial
        arrived = partial.size
        if not partial.claim(remote.etag, remote.size):
            self._furthest = 0
            self.resumed = False
            if arrived:
                self._progress.note(
                    f"{self._source} has changed on the Hub: the {format_file_size(arrived)} "
                    "that had arrived are of another version, and it is fetched from the start"
                )
        self._hash_what_is_there(remote)
        if partial.hashed == 0 and not self._xet_failed and wants_xet(remote):
            self._receive_by_xet(remote)
        if partial.hashed < remote.size:
            self._receive(remote)
        return remote

    def _hash_what_is_there(self, remote: RemoteFile) -> None:
        partial, control = self._partial, self._client.control
        if partial.size == partial.hashed:
            return
        self.resumed = True
        self._progress.start("verifying", partial.hashed, remote.size)
        while count := partial.hash_some():
            control.check()
            self._progress.advance(count)

    def _receive_by_xet(self, remote: RemoteFile) -> None:
        partial, control = self._partial, self._client.control
        # A failure is followed by plain HTTP: it may serve the file after all.
        self._xet_failed = True
        receive_by_xet(remote, partial.whole_path, self._progress, control)
        self._xet_failed = False
        partial.take_whole()
        self.downloaded += remote.size
        self._hash_what_is_there(remote)
        self.resumed = False

    def _receive(self, remote: RemoteFile) -> None:
        control, partial, progress = self._client.control, self._partial, self._progress
        with self._client.stream(remote, partial.hashed) as (response, begin):
            if begin < partial.hashed:
                # The server knows no ranges: it sends the whole file again.
                partial.restart()
                self.resumed = False
            progress.start("downloading", partial.hashed, remote.size)
            for data in response.iter_raw():
                if partial.hashed + len(data) > remote.size:
                    partial.restart()
                    raise TransferBroken(f"more than the {remote.size} bytes announced")
                partial.append(data)
                self.downloaded += len(data)
                progress.reach(partial.hashed)
                control.check()
                if control.paused:
                    raise _Paused
        if partial.hashed < remote.size:
            raise TransferBroken(f"the connection ended {remote.size - partial.hashed} bytes early")


def _expected(remote: RemoteFile, sha256: str | None) -> str:
    """The hash that the file must have. Raises DownloadError when the Hub has another file."""
    if sha256 is not None and remote.sha256 is not None and sha256 != remote.sha256:
        raise DownloadError(
            f"{remote.source} has changed on the Hub: sha256 {remote.sha256}, not {sha256}",
            hint=f"to take the new file as it is: localspec pull {remote.source}",
            expected=sha256,
            found=remote.sha256,
        )
    expected = sha256 or remote.sha256
    if expected is None:
        raise DownloadError(
            f"the Hub publishes no sha256 of {remote.source}",
            hint="only files in its large-file storage can be verified",
        )
    return expected
