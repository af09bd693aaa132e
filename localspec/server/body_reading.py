"""From bytes to a checked body; everything wrong with it becomes a 400 that names the place."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from localspec.server.bodies import REFUSED
from localspec.server.failures import ApiError, invalid
from localspec.server.settings import Limits

Body = TypeVar("Body", bound=BaseModel)

_MOST_LEVELS = 128
"""Nesting of JSON in a body; schemas and conversations stay far below."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


async def read_body(request: Request, kind: type[Body], limits: Limits) -> Body:
    """The checked body. Raises ApiError 400, 408 and 413."""
    data = parse_json(await _read(request, limits))
    if not isinstance(data, dict):
        raise invalid("the body must be a JSON object")
    return check(data, kind)


def check(data: dict[str, Any], kind: type[Body]) -> Body:
    """Raises ApiError 400 for the first thing that is wrong."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        _refuse(error, data, kind)


def parse_json(raw: bytes) -> Any:
    """JSON as the standard has it: UTF-8, no NaN, no lone surrogates, nested within reason."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8 (byte {error.start})", code="invalid_utf8") from None
    _check_depth(text)
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a value out of range"
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(f"the body is not JSON: {reason}{place}", code="invalid_json") from None
    if "\\u" in text:
        try:
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise invalid("the body has half of a surrogate pair", code="invalid_utf8") from None
    return data


async def _read(request: Request, limits: Limits) -> bytes:
    most = limits.body_bytes
    too_large = ApiError(413, f"the body is larger than {most} bytes", code="body_too_large")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise ApiError(408, "the body did not arrive in time", code="body_timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "the client went away", code="disconnected") from None
    return b"".join(chunks)


def _check_depth(text: str) -> None:
    """Python's parser recurses; what it meets must not be deeper than it can go."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > _MOST_LEVELS:
        raise invalid(f"the body nests {deepest} levels deep, {_MOST_LEVELS} is the most")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse(error: ValidationError, data: dict[str, Any], kind: type[BaseModel]) -> NoReturn:
    """Of several problems tell the one that lies deepest: of a union's branches, the one meant."""
    problem = max(error.errors(include_url=False), key=lambda e: len(_place(e, data)))
    place = _place(problem, data)
    name = _written(place)
    if problem["type"] == "extra_forbidden":
        last = str(place[-1])
        why = REFUSED.get(last) if len(place) == 1 else None
        if why is not None:
            raise invalid(f"{name} is not supported: {why}", name, "unsupported_parameter")
        hint = ""
        if len(place) == 1:
            near = difflib.get_close_matches(last, kind.model_fields, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
        raise invalid(f"unknown parameter {name}{hint}", name, "unknown_parameter")
    if problem["type"] == "missing":
        raise invalid(f"{name} is missing", name, "missing_parameter")
    message = problem["msg"]
    raise invalid(f"{name}: {message[:1].lower()}{message[1:]}", name, "invalid_value")


def _place(problem: ErrorDetails, data: Any) -> list[int | str]:
    """The part of pydantic's location that is a path in the body; names of union branches are
    left out."""
    found: list[int | str] = []
    loc: Sequence[Any] = problem["loc"]
    here: Any = data
    for index, step in enumerate(loc):
        is_last = index == len(loc) - 1
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        ):
            here = here[step]
            found.append(step)
        elif is_last and problem["type"] == "missing":
            found.append(step)
    return found


def _written(place: Sequence[int | str]) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text[:200] or "body"
