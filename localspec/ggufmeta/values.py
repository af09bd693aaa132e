"""Metadata values of a GGUF header; arrays stay raw until somebody asks for their elements."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from localspec.errors import BadModelFile
from localspec.ggufmeta.source import Prefix

STRING, ARRAY = 8, 9
SCALARS: dict[int, tuple[str, int]] = {
    0: ("B", 1),
    1: ("b", 1),
    2: ("H", 2),
    3: ("h", 2),
    4: ("I", 4),
    5: ("i", 4),
    6: ("f", 4),
    7: ("?", 1),
    10: ("Q", 8),
    11: ("q", 8),
    12: ("d", 8),
}
"""Struct code and width by GGUF value type (gguf.h, enum gguf_type)."""

MAX_STRINGS = 1 << 20
"""Strings in the arrays of one header; the largest seen has 780,000 tokens and merges."""

_U64 = struct.Struct("<Q")

Value = Any
"""int, float, bool, str or Array."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a header, undecoded."""

    kind: int
    """GGUF type of the elements."""
    count: int
    raw: bytes
    """The elements as the file has them, strings with their lengths."""

    @property
    def is_strings(self) -> bool:
        return self.kind == STRING

    def numbers(self) -> list[Any]:
        """The elements of an array of numbers or booleans."""
        code, _ = SCALARS[self.kind]
        if code == "?":
            return [byte != 0 for byte in self.raw]
        return list(struct.unpack(f"<{self.count}{code}", self.raw))

    def strings(self) -> list[bytes]:
        """The elements of an array of strings, as bytes."""
        raw, read, position = self.raw, _U64.unpack_from, 0
        found: list[bytes] = []
        for _ in range(self.count):
            end = position + 8 + read(raw, position)[0]
            found.append(raw[position + 8 : end])
            position = end
        return found


def read_u64(prefix: Prefix, what: str) -> int:
    return int(_U64.unpack_from(prefix.data, prefix.need(8, what))[0])


def read_u32(prefix: Prefix, what: str) -> int:
    start = prefix.need(4, what)
    return int.from_bytes(prefix.data[start : start + 4], "little")


def read_bytes(prefix: Prefix, what: str) -> bytes:
    """A length-prefixed string as bytes."""
    length = read_u64(prefix, what)
    if length > prefix.remaining:
        raise BadModelFile(
            f"{prefix.source.name}: {what} claims a string of {length} bytes, "
            f"{prefix.remaining} are left",
            hint="the file is incomplete or damaged: pull it again",
        )
    start = prefix.need(length, what)
    return bytes(prefix.data[start : start + length])


def read_value(prefix: Prefix, kind: int, what: str) -> Value:
    """One metadata value of GGUF type `kind`. Raises BadModelFile."""
    if kind == STRING:
        return read_bytes(prefix, what).decode("utf-8", "replace")
    if kind == ARRAY:
        return _read_array(prefix, what)
    if kind not in SCALARS:
        raise BadModelFile(f"{prefix.source.name}: {what} has unknown type {kind}")
    code, width = SCALARS[kind]
    start = prefix.need(width, what)
    if code == "?":
        return prefix.data[start] != 0
    return struct.unpack_from(f"<{code}", prefix.data, start)[0]


def _read_array(prefix: Prefix, what: str) -> Array:
    kind = read_u32(prefix, what)
    count = read_u64(prefix, what)
    if kind != STRING and kind not in SCALARS:
        raise BadModelFile(f"{prefix.source.name}: {what} is an array of unknown type {kind}")
    width = 8 if kind == STRING else SCALARS[kind][1]
    if kind == STRING:
        prefix.strings += count
    if count * width > prefix.remaining or prefix.strings > MAX_STRINGS:
        raise BadModelFile(
            f"{prefix.source.name}: {what} claims {count} elements, "
            f"{prefix.remaining} bytes are left",
            hint="the file is incomplete or damaged: pull it again",
        )
    if kind != STRING:
        start = prefix.need(count * width, what)
        return Array(kind, count, bytes(prefix.data[start : start + count * width]))
    start = prefix.position
    _skip_strings(prefix, count, what)
    return Array(kind, count, bytes(prefix.data[start : prefix.position]))


def _skip_strings(prefix: Prefix, count: int, what: str) -> None:
    # A quarter of a million tokens: the loop touches each length once and nothing else.
    read, left = _U64.unpack_from, count
    while left:
        data, position = prefix.data, prefix.position
        last = len(data) - 8
        while left and position <= last:
            step = position + 8 + read(data, position)[0]
            if step > len(data):
                break
            position = step
            left -= 1
        prefix.position = position
        if left:
            # The next one crosses the end of what has been read: the careful way, once.
            read_length = read_u64(prefix, what)
            if read_length > prefix.remaining:
                raise prefix.truncated(what)
            prefix.need(read_length, what)
            left -= 1
