"""Where header bytes come from: a local file, or ranges that someone else fetches."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from localspec.errors import BadModelFile

MAX_HEADER = 256 * 1024 * 1024
"""The largest real headers have a quarter of a million tokens and half a million merges: 20 MB."""


class ByteSource(Protocol):
    """Random access to the bytes of one file."""

    @property
    def name(self) -> str:
        """What messages call the file."""

    @property
    def size(self) -> int | None:
        """Bytes of the whole file; None when unknown."""

    @property
    def chunk(self) -> int:
        """How many bytes to ask for at a time; the first request has this size."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""


class FileSource:
    """A local file; closes with `close()` or as a context manager."""

    chunk = 1024 * 1024

    def __init__(self, path: Path) -> None:
        """Raises BadModelFile when there is nothing to read at `path`."""
        self.path = path
        self._file: BinaryIO | None = None
        try:
            found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                raise BadModelFile(
                    f"{path} is a folder, not a model file",
                    hint="name the .gguf file in it",
                    path=str(path),
                )
            if not stat.S_ISREG(found.st_mode):
                raise BadModelFile(f"{path} is not a regular file", path=str(path))
            self._file = path.open("rb")
        except FileNotFoundError as error:
            raise BadModelFile(
                f"there is no file {path}",
                hint="localspec list shows what is there",
                path=str(path),
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BadModelFile(f"cannot read {path}: {reason}", path=str(path)) from error
        self._size = os.fstat(self._file.fileno()).st_size

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def size(self) -> int | None:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class RangeSource:
    """Bytes of a remote file through `fetch(offset, length)`, for example HTTP ranges."""

    def __init__(
        self,
        name: str,
        size: int | None,
        fetch: Callable[[int, int], bytes],
        chunk: int = 2 * 1024 * 1024,
    ) -> None:
        self._name, self._size, self._fetch, self._chunk = name, size, fetch, chunk

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int | None:
        return self._size

    @property
    def chunk(self) -> int:
        return self._chunk

    def read(self, offset: int, length: int) -> bytes:
        if self._size is not None:
            length = min(length, self._size - offset)
        return self._fetch(offset, length) if length > 0 else b""


class BytesSource:
    """A header that is already in memory."""

    def __init__(self, data: bytes, name: str = "<bytes>", size: int | None = None) -> None:
        """size: of the whole file when `data` is only its beginning."""
        self._data, self._name = data, name
        self._size = len(data) if size is None else size

    chunk = 1024 * 1024

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int | None:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Prefix:
    """The beginning of a source, read forward as it is needed and kept."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.data = bytearray()
        self.position = 0
        self.strings = 0
        """Strings in arrays so far: walking them is what takes a reader's time."""
        self._next = source.chunk

    def need(self, length: int, what: str) -> int:
        """Step over `length` bytes, which are then readable; returns where they start.

        Raises BadModelFile when the file is too short for that, or the header too long.
        """
        start, end = self.position, self.position + length
        size = self.source.size
        if size is not None and end > size:
            raise self.truncated(what)
        if end > MAX_HEADER:
            raise BadModelFile(
                f"{self.source.name}: {what} would make the header larger than "
                f"{MAX_HEADER // 2**20} MiB",
                hint="this is not a file that llama.cpp's tools wrote",
            )
        while len(self.data) < end:
            # Later requests grow: few round trips for a large vocabulary, little waste for a small.
            more = self.source.read(len(self.data), max(self._next, end - len(self.data)))
            if not more:
                raise self.truncated(what)
            self.data += more
            self._next = min(self._next * 2, 4 * self.source.chunk)
        self.position = end
        return start

    @property
    def remaining(self) -> int:
        """Bytes the file can still have after the position, as far as anyone knows."""
        size = self.source.size
        limit = MAX_HEADER if size is None else min(size, MAX_HEADER)
        return max(0, limit - self.position)

    def truncated(self, what: str) -> BadModelFile:
        return BadModelFile(
            f"{self.source.name} ends inside its header (at {what})",
            hint="the file is incomplete or damaged: pull it again",
        )
