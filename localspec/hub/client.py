"""What we ask the Hub, through huggingface_hub: its endpoint, token, proxies and offline mode."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

from localspec.catalog.entries import HubSource
from localspec.errors import DownloadError
from localspec.hub.control import PullControl
from localspec.hub.failures import (
    RetryPolicy,
    TransferBroken,
    download_error,
    is_transient,
    is_unreachable,
    outside_errors,
    retry_after,
)
from localspec.hub.quants import RepoFile

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file as the Hub has it now."""

    source: HubSource
    size: int
    etag: str
    sha256: str | None
    """None when the Hub publishes none (files that are not in large-file storage)."""
    commit: str
    url: str
    """Where its bytes are; often a signed address at another host, valid for a while."""
    same_host: bool
    """Whether `url` is the Hub itself, so that the token may go there."""
    xet: object = None
    """What huggingface_hub needs for a Xet transfer; None for a file that has none."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository's listing at one commit."""

    repo: str
    commit: str
    files: tuple[RepoFile, ...]
    gated: bool
    license: str


class HubClient:
    """Requests to the Hub, repeated with patience where that helps.

    Every method raises DownloadError with one clear line, and Cancelled by `control`.
    """

    def __init__(
        self, policy: RetryPolicy | None = None, control: PullControl | None = None
    ) -> None:
        self.policy = policy or RetryPolicy()
        self.control = control or PullControl()

    @property
    def endpoint(self) -> str:
        """`HF_ENDPOINT`, or the Hub."""
        from huggingface_hub import constants

        return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")

    def file(self, source: HubSource) -> RemoteFile:
        """Size, hash and address of one file, after retries."""
        return self._patiently(source, lambda: self.file_once(source))

    def file_once(self, source: HubSource) -> RemoteFile:
        """As `file`, one attempt; raises what huggingface_hub raises."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import OfflineModeIsEnabled

        _prepare_library()
        if is_offline():
            raise OfflineModeIsEnabled("offline mode is on")
        if source.filename is None:
            raise ValueError("a repository alone names no file")
        endpoint = self.endpoint
        url = hf_hub_url(source.repo, source.filename, revision=source.revision, endpoint=endpoint)
        found = get_hf_file_metadata(
            url, timeout=_timeout(), headers=_identity(), endpoint=endpoint
        )
        if found.size is None or not found.etag or not found.commit_hash:
            raise DownloadError(
                f"{endpoint} does not answer like a Hub for {source}",
                hint="check HF_ENDPOINT, the proxy and the firewall",
            )
        location = urljoin(url, found.location)
        return RemoteFile(
            source=source,
            size=found.size,
            etag=found.etag,
            sha256=found.etag.lower() if _is_sha256(found.etag) else self._listed(source),
            commit=found.commit_hash,
            url=location,
            same_host=_origin(location) == _origin(url),
            xet=found.xet_file_data,
        )

    def _listed(self, source: HubSource) -> str | None:
        """The sha256 in the listing of the repository, for mirrors that answer with other etags."""
        files = self._repository_once(source.repo, source.revision).files
        return next((file.sha256 for file in files if file.path == source.filename), None)

    @contextlib.contextmanager
    def stream(self, file: RemoteFile, offset: int) -> Iterator[tuple[httpx2.Response, int]]:
        """The bytes of `file` from `offset` on: the response, and where its body really begins.

        A server that knows no ranges begins at 0. Raises what the connection raises.
        """
        from huggingface_hub.utils._headers import build_hf_headers
        from huggingface_hub.utils._http import get_session, hf_raise_for_status

        headers = dict(build_hf_headers(library_name="localspec"))
        if not file.same_host:
            # The token is for the Hub, never for the storage that it points to.
            headers.pop("authorization", None)
        headers |= _identity()
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with get_session().stream("GET", file.url, headers=headers, timeout=_timeout()) as response:
            hf_raise_for_status(response)
            yield response, _begin(response, file, offset)

    def repository(self, repo: str, revision: str | None = None) -> Repository:
        """The listing of a repository with sizes and hashes."""
        source = HubSource(repo, revision=revision)
        return self._patiently(source, lambda: self._repository_once(repo, revision))

    def _repository_once(self, repo: str, revision: str | None) -> Repository:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import OfflineModeIsEnabled

        _prepare_library()
        if is_offline():
            raise OfflineModeIsEnabled("offline mode is on")
        api = HfApi(endpoint=self.endpoint, library_name="localspec")
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=_timeout())
        files = tuple(
            RepoFile(
                file.rfilename,
                file.lfs.size if file.lfs else file.size,
                file.lfs.sha256 if file.lfs else None,
            )
            for file in info.siblings or ()
        )
        licenses = [tag[8:] for tag in info.tags or () if tag.startswith("license:")]
        return Repository(
            info.id, info.sha or "", files, bool(info.gated), licenses[0] if licenses else ""
        )

    def search(self, text: str, *, author: str | None = None, limit: int = 20) -> list[str]:
        """Repositories with GGUF files whose name has `text`, most downloaded first.

        author: only those of this owner.
        """

        # HfApi.list_models has a patience of its own, which nobody could interrupt.
        query = {"filter": "gguf", "sort": "downloads", "limit": str(limit)}
        query |= {"search": text} if text else {}
        query |= {"author": author} if author else {}

        def ask() -> list[str]:
            from huggingface_hub.errors import OfflineModeIsEnabled
            from huggingface_hub.utils._headers import build_hf_headers
            from huggingface_hub.utils._http import get_session, hf_raise_for_status

            _prepare_library()
            if is_offline():
                raise OfflineModeIsEnabled("offline mode is on")
            response = get_session().get(
                f"{self.endpoint}/api/models",
                params=query,
                headers=build_hf_headers(library_name="localspec"),
                timeout=_timeout(),
            )
            hf_raise_for_status(response)
            found = response.json()
            return [str(model["id"]) for model in found if isinstance(model, dict)]

        return self._patiently(HubSource(author or text), ask)

    def _patiently(self, source: HubSource, ask: Callable[[], T]) -> T:
        failures = 0
        while True:
            self.control.check()
            try:
                return ask()
            except outside_errors() as error:
                failures += 1
                self.pause_after(error, failures, source)

    def pause_after(self, error: Exception, failures: int, source: HubSource) -> None:
        """Wait before another try, or raise what the user is told instead.

        failures: how many in a row, this one included.
        """
        asked = retry_after(error)
        patient = asked is None or asked <= self.policy.longest_asked_s
        attempts = self.policy.attempts
        if is_unreachable(error):
            attempts = self.policy.patient_attempts
        if not is_transient(error) or failures >= attempts or not patient:
            raise download_error(error, source, self.endpoint) from error
        self.control.sleep(self.policy.wait_s(failures, asked))


def _prepare_library() -> None:
    """Keep huggingface_hub to what was asked of it, unless the user set it otherwise.

    It would log into our progress lines, and fetch a list of programs once a day to tell the Hub
    which of them calls it.
    """
    from huggingface_hub import constants

    if "HF_HUB_VERBOSITY" not in os.environ:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if "HF_HUB_DISABLE_TELEMETRY" not in os.environ:
        constants.HF_HUB_DISABLE_TELEMETRY = True


def is_offline() -> bool:
    """Whether the user asked not to touch the network (HF_HUB_OFFLINE)."""
    asked = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return asked.upper() in ("1", "ON", "YES", "TRUE")


def _begin(response: httpx2.Response, file: RemoteFile, offset: int) -> int:
    """Where the body of `response` begins in the file. Raises TransferBroken for nonsense."""
    if response.status_code != 206:
        length = response.headers.get("Content-Length")
        if length is not None and length != str(file.size):
            raise TransferBroken(f"the server offers {length} bytes, not {file.size}")
        return 0
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    first = span.partition("-")[0]
    if not first.isdecimal() or int(first) != offset or total not in ("*", str(file.size)):
        raise TransferBroken(f"the server answers another range: {span}/{total}")
    return offset


def _timeout() -> float:
    """Seconds without a byte after which a connection counts as dead (HF_HUB_DOWNLOAD_TIMEOUT)."""
    asked = os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")
    return float(asked) if asked.isdecimal() and int(asked) > 0 else 10.0


def _identity() -> dict[str, str]:
    # A compressed body has neither the length nor the ranges of the file.
    return {"Accept-Encoding": "identity"}


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdefABCDEF" for c in text)
