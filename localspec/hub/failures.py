"""What went wrong between here and the Hub: worth another try, or one clear line for the user."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.catalog.entries import HubSource
from localspec.errors import DownloadError

_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


class TransferBroken(Exception):
    """The connection ended or said something senseless in the middle of a file."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a pull is."""

    attempts: int = 6
    """Failures in a row, no new byte arriving between them, after which it gives up."""
    patient_attempts: int = 12
    """The same where no server could be reached at all: a network that is away comes back."""
    base_s: float = 1.0
    """Seconds before the second attempt; doubled for every further one."""
    longest_s: float = 30.0
    """Longest wait of our own choice."""
    longest_asked_s: float = 300.0
    """Longest wait that a server may ask for; beyond that the pull gives up and says so."""

    def wait_s(self, failures: int, asked: float | None) -> float:
        """Seconds to wait after the `failures`-th failure in a row; `asked`: Retry-After."""
        if asked is not None:
            return asked
        return min(self.longest_s, self.base_s * 2.0 ** (failures - 1))


def outside_errors() -> tuple[type[Exception], ...]:
    """What the network, the Hub and huggingface_hub raise; everything else is a mistake of ours."""
    import httpx2
    from huggingface_hub import errors as hub_errors

    return (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        hub_errors.HfHubHTTPError,
        hub_errors.OfflineModeIsEnabled,
        TransferBroken,
        ConnectionError,
        TimeoutError,
    )


def status_of(error: Exception) -> int | None:
    """HTTP status of an error of huggingface_hub or httpx; None for errors of the connection."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def retry_after(error: Exception) -> float | None:
    """Seconds that the server asks to wait: Retry-After, or the Hub's own RateLimit header."""
    response = getattr(error, "response", None)
    if response is None:
        return None
    asked = str(response.headers.get("Retry-After", "")).strip()
    if asked.isdecimal():
        return float(asked)
    if asked:
        return _until(asked)
    if status_of(error) == 429:
        for item in str(response.headers.get("RateLimit", "")).split(";"):
            name, _, value = item.strip().partition("=")
            if name == "t" and value.isdecimal():
                return float(value)
    return None


def is_transient(error: Exception) -> bool:
    """Whether the same request may well succeed later."""
    import httpx2

    if isinstance(error, TransferBroken):
        return True
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.ProxyError):
        return False
    return isinstance(error, httpx2.TransportError | ConnectionError | TimeoutError)


def is_unreachable(error: Exception) -> bool:
    """Whether no connection could be made: no network, no name, nobody listening."""
    import httpx2

    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def download_error(error: Exception, source: HubSource, endpoint: str) -> DownloadError:
    """The one line that the user gets for `error` about `source`."""
    from huggingface_hub import errors as hub_errors

    status = status_of(error)
    fields = {"source": str(source), "status": status}
    page = f"{endpoint}/{source.repo}"
    if isinstance(error, hub_errors.OfflineModeIsEnabled):
        return DownloadError(
            f"{source} is not on this machine, and offline mode is on",
            hint="unset HF_HUB_OFFLINE to download it",
            reason="offline",
            **fields,
        )
    if isinstance(error, hub_errors.GatedRepoError):
        how = "accept its licence" if _has_token() else "log in (hf auth login) and accept it"
        return DownloadError(
            f"{source.repo} is gated: its licence has to be accepted first",
            hint=f"{how} at {page}, then pull again",
            reason="gated",
            **fields,
        )
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return DownloadError(
            f"{source.repo} has no revision {source.revision or 'main'!r}",
            hint=f"branches and tags: {page}/refs",
            reason="no revision",
            **fields,
        )
    if isinstance(error, hub_errors.RemoteEntryNotFoundError):
        return DownloadError(
            f"{source.repo} has no file {source.filename!r}",
            hint=f"see {page}/tree/main",
            reason="no file",
            **fields,
        )
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        private = "check the spelling" + ("" if _has_token() else "; a private one needs HF_TOKEN")
        return DownloadError(
            f"there is no repository {source.repo}", hint=private, reason="no repository", **fields
        )
    if status == 401:
        return DownloadError(
            f"the Hub does not accept the token for {source.repo} (401)",
            hint="hf auth login, or set HF_TOKEN to a valid token",
            **fields,
        )
    if status == 403:
        return DownloadError(
            f"access to {source.repo} is forbidden (403)",
            hint=f"the token needs read access to it; licence and access: {page}",
            **fields,
        )
    if status == 429:
        asked = retry_after(error)
        wait = f"; it asks to wait {asked:.0f} s" if asked is not None else ""
        return DownloadError(
            f"the Hub limits the requests of this address (429){wait}",
            hint="pull again later; a token (HF_TOKEN) raises the limit",
            **fields,
        )
    if status is not None:
        return DownloadError(
            f"the Hub answered {status} for {source}",
            hint="pull again later; what arrived is kept",
            **fields,
        )
    return DownloadError(
        f"the connection to {endpoint} failed for {source}: {_reason(error)}",
        hint="check the network and the proxy, then try again; what arrived is kept",
        **fields,
    )


def _reason(error: Exception) -> str:
    import httpx2

    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return "no connection in time"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "no answer in time"
    said = " ".join(str(error).split())
    return said or type(error).__name__


def _has_token() -> bool:
    from huggingface_hub import get_token

    return get_token() is not None


def _until(http_date: str) -> float | None:
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(http_date).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
