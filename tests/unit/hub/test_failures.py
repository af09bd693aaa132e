"""Which failures are worth another try, how long to wait, and when patience ends."""

from __future__ import annotations

import time
from email.utils import formatdate

import httpx2
import pytest
from huggingface_hub.errors import HfHubHTTPError

from localspec.catalog.entries import HubSource
from localspec.errors import DownloadError
from localspec.hub.client import HubClient
from localspec.hub.control import Cancelled, PullControl
from localspec.hub.failures import (
    RetryPolicy,
    TransferBroken,
    is_transient,
    retry_after,
)

SOURCE = HubSource("owner/repo", "file.gguf")


def _answer(status: int, **headers: str) -> HfHubHTTPError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx2.Request("GET", "https://hub.invalid/x")
    return HfHubHTTPError("no", response=httpx2.Response(status, headers=named, request=request))


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (_answer(408), True),
        (_answer(429), True),
        (_answer(500), True),
        (_answer(503), True),
        (_answer(504), True),
        (_answer(400), False),
        (_answer(401), False),
        (_answer(403), False),
        (_answer(404), False),
        (_answer(501), False),
        (httpx2.ReadTimeout("t"), True),
        (httpx2.ConnectError("c"), True),
        (httpx2.RemoteProtocolError("r"), True),
        (httpx2.ProxyError("p"), False),
        (httpx2.UnsupportedProtocol("u"), False),
        (TransferBroken("b"), True),
        (ConnectionResetError(), True),
    ],
)
def test_what_is_worth_another_try(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert retry_after(_answer(429, retry_after="7")) == 7.0
    later = formatdate(time.time() + 60, usegmt=True)
    asked = retry_after(_answer(503, retry_after=later))
    assert asked is not None
    assert 50 < asked <= 60
    assert retry_after(_answer(429, retry_after=formatdate(0, usegmt=True))) == 0.0
    assert retry_after(_answer(429, retry_after="soon")) is None
    assert retry_after(_answer(429)) is None
    assert retry_after(httpx2.ReadTimeout("t")) is None


def test_the_hubs_own_rate_limit_header() -> None:
    error = _answer(429, ratelimit='"api";r=0;t=42')
    assert retry_after(error) == 42.0


def test_waiting_doubles_up_to_a_limit_and_obeys_the_server() -> None:
    policy = RetryPolicy(base_s=1.0, longest_s=8.0)
    assert [policy.wait_s(n, None) for n in range(1, 6)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert policy.wait_s(1, 17.0) == 17.0


def test_patience_ends_with_one_line() -> None:
    client = HubClient(RetryPolicy(attempts=3, base_s=0.0))
    client.pause_after(_answer(503), 1, SOURCE)
    client.pause_after(_answer(503), 2, SOURCE)
    with pytest.raises(DownloadError, match="503"):
        client.pause_after(_answer(503), 3, SOURCE)


def test_nobody_waits_for_what_stays_wrong() -> None:
    with pytest.raises(DownloadError, match="403"):
        HubClient(RetryPolicy(base_s=100.0)).pause_after(_answer(403), 1, SOURCE)


def test_cancelling_ends_a_wait_at_once() -> None:
    control = PullControl()
    control.cancel()
    with pytest.raises(Cancelled):
        HubClient(RetryPolicy(base_s=100.0), control).pause_after(_answer(503), 1, SOURCE)
