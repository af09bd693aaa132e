"""Who may talk to the server: hosts, origins, keys, and how much of a request is taken."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec.server.failures import ApiError
from localspec.server.settings import ServerSettings

OPEN_PATHS = frozenset({"/health", "/v1/health"})
"""What answers without a key; it tells nothing but that the server lives."""

OnResponse = Callable[[str, int], None]


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """First of all middleware, so that nothing else sees a request it refuses.

    A web page on the user's machine can send requests here, but not choose their `Host` and
    `Origin`: a name that was rebound to 127.0.0.1 shows in `Host`, a foreign page in `Origin`.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, on_response: OnResponse) -> None:
        self._app = app
        self._keys = [key.encode() for key in settings.api_keys]
        self._hosts = {name.lower() for name in (*settings.allowed_hosts, settings.host)}
        self._origins = {origin.rstrip("/").lower() for origin in settings.cors_origins}
        self._most_headers = settings.limits.headers
        self._most_requests = settings.limits.connections
        self._requests = 0
        self._on_response = on_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Lifespan belongs to the server; sockets are not spoken here.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._on_response(scope["path"], message["status"])
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error.as_response()(scope, receive, counted)
            return
        self._requests += 1
        try:
            await self._app(scope, receive, counted)
        finally:
            self._requests -= 1

    def _check(self, scope: Scope) -> None:
        """Raises ApiError."""
        if len(scope["headers"]) > self._most_headers:
            raise ApiError(431, f"more than {self._most_headers} headers", code="too_many_headers")
        if self._requests >= self._most_requests:
            raise ApiError(503, "too many requests at once", code="too_busy", retry_after_s=1)
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise ApiError(403, "this Host is not served here", code="host_not_allowed")
        self._check_origin(headers, host)
        is_preflight = scope["method"] == "OPTIONS" and "origin" in headers
        if self._keys and scope["path"] not in OPEN_PATHS and not is_preflight:
            self._check_key(headers)

    def _is_ours(self, host: str) -> bool:
        name = _host_name(host)
        if name is None:
            return False
        if name in self._hosts or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            # An address cannot be rebound, only a name can.
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _check_origin(self, headers: Headers, host: str) -> None:
        origin = headers.get("origin")
        if origin is not None:
            if origin.lower() in self._origins or "*" in self._origins:
                return
            parts = urlsplit(origin)
            if parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower():
                return
        elif headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return
        raise ApiError(403, "this web page may not use the server", code="origin_not_allowed")

    def _check_key(self, headers: Headers) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        key = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not key:
            raise ApiError(401, "an API key is needed: Authorization: Bearer KEY", code="no_key")
        if not _any_equal(key.encode("utf-8", "replace"), self._keys):
            raise ApiError(401, "this API key is not right", code="invalid_api_key")


def _any_equal(given: bytes, keys: Iterable[bytes]) -> bool:
    # All of them are compared, so that the time tells nothing about which one was close.
    return sum(hmac.compare_digest(given, key) for key in keys) > 0


def _host_name(host: str) -> str | None:
    """The name in a `Host` header, without its port; None when it is not one name."""
    try:
        parts = urlsplit(f"//{host}")
        name = parts.hostname
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        return None
    if not name or parts.path or parts.query or parts.fragment or parts.username is not None:
        return None
    return name.lower()
