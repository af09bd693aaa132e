"""Lines of a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse

from localspec.server.failures import ApiError

DONE = b"data: [DONE]\n\n"
_PING_S = 15
"""Comment lines keep proxies from closing a stream in which a long prompt is read."""


def line(data: dict[str, Any], event: str = "") -> bytes:
    """One event with JSON in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


def error_line(error: ApiError) -> bytes:
    """An error after the status was sent; clients raise it when they read it."""
    return line(error.as_dict())


def event_stream(lines: AsyncIterator[bytes]) -> EventSourceResponse:
    """A response that is sent while `lines` come; it closes them when the client hangs up."""
    return EventSourceResponse(lines, ping=_PING_S, sep="\n")
