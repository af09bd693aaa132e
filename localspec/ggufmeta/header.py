"""Bounded reader of GGUF headers: every count is held against the bytes at hand.

Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md; limits as in llama.cpp's gguf.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from localspec.errors import BadModelFile
from localspec.ggufmeta.ggml_types import GGML_TYPES, GgmlType
from localspec.ggufmeta.source import ByteSource, FileSource, Prefix
from localspec.ggufmeta.values import Array, Value, read_bytes, read_u32, read_u64, read_value

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 4
MAX_TENSOR_NAME = 64
MAX_TENSORS = 1 << 17
MAX_KEYS = 1 << 16

_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as its file describes it."""

    name: str
    shape: tuple[int, ...]
    """ggml's order: the contiguous dimension first."""
    type: GgmlType
    offset: int
    """Bytes from the start of the tensor data of its file."""
    part: int = 0
    """Which file of a split model."""

    @property
    def nbytes(self) -> int:
        return self.type.row_size(self.shape[0]) * prod(self.shape[1:])


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a model."""

    name: str
    header_size: int
    """Bytes before the first tensor, padding included."""
    data_size: int
    """Bytes from there to the end of the last tensor."""
    file_size: int | None
    """Bytes the file really has; None when the source does not know."""

    @property
    def full_size(self) -> int:
        """Bytes of the complete file."""
        return self.header_size + self.data_size


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata and tensor list of a model, all its files together."""

    name: str
    version: int
    alignment: int
    metadata: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    parts: tuple[Part, ...]

    @property
    def architecture(self) -> str:
        """`llama`, `qwen3moe`; empty when the file does not say."""
        found = self.metadata.get("general.architecture", "")
        return found if isinstance(found, str) else ""

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, without the padding between them."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def own(self, key: str, default: Value = None) -> Value:
        """The value of `key` under the architecture's prefix."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def whole(self, key: str) -> int | None:
        """A scalar whole number under the architecture's prefix, or None."""
        found = self.own(key)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def array(self, key: str) -> Array | None:
        """An array by its full key, or None."""
        found = self.metadata.get(key)
        return found if isinstance(found, Array) else None


def read_header(path: Path) -> Header:
    """The header of the model at `path`; the first file of a split model brings the others.

    Raises BadModelFile with one line that names the file and what is wrong with it.
    """
    match = _SPLIT.match(path.name)
    if match and int(match["number"]) != 1:
        raise BadModelFile(
            f"{path} is part {int(match['number'])} of {int(match['count'])}",
            hint=f"name the first part: {split_name(path.name, 1)}",
            path=str(path),
        )
    with FileSource(path) as source:
        first = parse_header(source)
    count = split_count(first)
    if count <= 1:
        return first
    if not match or int(match["count"]) != count:
        raise BadModelFile(
            f"{path} is the first of {count} parts, but is not named like one",
            hint="the parts of a split model need their own names, ...-00001-of-0000N.gguf",
            path=str(path),
        )
    others: list[Header] = []
    for number in range(2, count + 1):
        with FileSource(path.with_name(split_name(path.name, number))) as source:
            others.append(parse_header(source))
    return join_headers(first, others)


def parse_header(source: ByteSource) -> Header:
    """The header of one file. Raises BadModelFile."""
    prefix = Prefix(source)
    version = _read_start(prefix)
    n_tensors, n_keys = read_u64(prefix, "the tensor count"), read_u64(prefix, "the key count")
    # A tensor takes at least 32 bytes, a key 13: less than that cannot be true.
    for what, count, least, most in (
        ("tensors", n_tensors, 32, MAX_TENSORS),
        ("metadata keys", n_keys, 13, MAX_KEYS),
    ):
        if count * least > prefix.remaining or count > most:
            raise BadModelFile(
                f"{source.name} claims {count} {what}, {prefix.remaining} bytes are left",
                hint="the file is incomplete or damaged: pull it again",
            )
    metadata = _read_metadata(prefix, n_keys)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & alignment - 1:
        raise BadModelFile(f"{source.name}: alignment {alignment} is not a power of two")
    tensors, data_size = _read_tensors(prefix, n_tensors, alignment)
    header_size = -(-prefix.position // alignment) * alignment if tensors else prefix.position
    part = Part(source.name, header_size, data_size, source.size)
    _check_length(part)
    return Header(source.name, version, alignment, metadata, tensors, (part,))


def join_headers(first: Header, others: list[Header]) -> Header:
    """One header for a split model. `others` are the second file and those after it."""
    tensors, parts = list(first.tensors), list(first.parts)
    seen = {tensor.name for tensor in tensors}
    for number, other in enumerate(others, 1):
        index = other.metadata.get("split.no", number)
        if index != number:
            raise BadModelFile(f"{other.name} says it is part {index}, expected {number}")
        for tensor in other.tensors:
            if tensor.name in seen:
                raise BadModelFile(f"{other.name}: tensor {tensor.name!r} is in another part too")
            seen.add(tensor.name)
            tensors.append(
                TensorInfo(tensor.name, tensor.shape, tensor.type, tensor.offset, number)
            )
        parts += other.parts
    return Header(
        first.name, first.version, first.alignment, first.metadata, tuple(tensors), tuple(parts)
    )


def split_count(header: Header) -> int:
    """How many files the model has, by its first header."""
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or not 0 <= count <= 9999:
        raise BadModelFile(f"{header.name} claims to be one of {count} parts")
    return max(1, count)


def split_name(name: str, number: int) -> str:
    """The name of part `number` (from 1) beside `name`, the name of another part."""
    match = _SPLIT.match(name)
    if match is None:
        raise ValueError(f"{name} is not named like a part")
    return f"{match['stem']}-{number:05d}-of-{match['count']}.gguf"


def _read_start(prefix: Prefix) -> int:
    name, size = prefix.source.name, prefix.source.size
    if size == 0:
        raise BadModelFile(f"{name} is empty", hint="download it again")
    start = prefix.source.read(0, 8)
    if start[:4] != MAGIC:
        raise BadModelFile(
            f"{name} is not a GGUF file: it begins with {_shown(start[:4])}",
            hint=_magic_hint(start),
        )
    prefix.need(len(MAGIC), "the magic")
    version = read_u32(prefix, "the version")
    if version not in VERSIONS:
        big_endian = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        raise BadModelFile(
            f"{name} is GGUF version {version}, supported are 2 and 3",
            hint="it was made for a big-endian machine"
            if big_endian
            else "convert or download it again with current tools",
        )
    return version


def _magic_hint(start: bytes) -> str:
    if start.startswith((b"ggml", b"lmgg", b"ggjt", b"tjgg", b"fmgg")):
        return "a GGML file from before 2023: convert it again"
    if start.startswith(b"PK"):
        return "a zip or PyTorch file: localspec needs GGUF"
    if start[:7].lower() in (b"version", b"<!docty", b"<html>\n") or start[:1] in b"<{":
        return (
            "a web page, JSON or a Git LFS pointer was saved instead of the model: download again"
        )
    return "localspec runs models in GGUF format"


def _shown(start: bytes) -> str:
    text = start.decode("ascii", "replace")
    return repr(text) if text.isprintable() else start.hex(" ")


def _read_metadata(prefix: Prefix, n_keys: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for index in range(n_keys):
        key = read_bytes(prefix, f"metadata key {index + 1} of {n_keys}").decode("utf-8", "replace")
        if not key or len(key) > 65535:
            raise BadModelFile(f"{prefix.source.name}: metadata key {index + 1} has no usable name")
        if key in found:
            raise BadModelFile(f"{prefix.source.name}: metadata key {key!r} is there twice")
        what = f"metadata {key[:80]!r}"
        found[key] = read_value(prefix, read_u32(prefix, what), what)
    return found


def _read_tensors(
    prefix: Prefix, n_tensors: int, alignment: int
) -> tuple[tuple[TensorInfo, ...], int]:
    source, found, seen, expected, end = prefix.source.name, [], set[str](), 0, 0
    for index in range(n_tensors):
        what = f"tensor {index + 1} of {n_tensors}"
        name = read_bytes(prefix, what).decode("utf-8", "replace")
        if not name or len(name) >= MAX_TENSOR_NAME or name in seen:
            raise BadModelFile(f"{source}: {what} has the impossible name {name[:80]!r}")
        seen.add(name)
        n_dims = read_u32(prefix, what)
        if not 1 <= n_dims <= MAX_DIMS:
            raise BadModelFile(f"{source}: tensor {name!r} has {n_dims} dimensions")
        shape = tuple(read_u64(prefix, what) for _ in range(n_dims))
        number = read_u32(prefix, what)
        kind = GGML_TYPES.get(number)
        if kind is None:
            raise BadModelFile(
                f"{source}: tensor {name!r} has type {number}, which is not known",
                hint="a newer localspec may know it",
            )
        offset = read_u64(prefix, what)
        elements = prod(shape)
        if not 0 < elements < 1 << 62 or max(shape) >= 1 << 62 or shape[0] % kind.block:
            raise BadModelFile(f"{source}: tensor {name!r} has the impossible shape {shape}")
        tensor = TensorInfo(name, shape, kind, offset)
        if offset != expected:
            raise BadModelFile(f"{source}: tensor {name!r} is at {offset}, expected {expected}")
        end = offset + tensor.nbytes
        expected = -(-end // alignment) * alignment
        found.append(tensor)
    return tuple(found), end


def _check_length(part: Part) -> None:
    if part.file_size is not None and part.file_size < part.full_size:
        raise BadModelFile(
            f"{part.name} is truncated: its tensors need {part.full_size} bytes, "
            f"it has {part.file_size}",
            hint="the download did not finish: pull it again",
            required=part.full_size,
            size=part.file_size,
        )
