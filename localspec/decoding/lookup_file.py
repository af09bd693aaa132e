"""Lookup caches on disk, in llama.cpp's own format, with a sidecar that names the vocabulary.

Format (read from llama.cpp, common/ngram-cache.cpp), all little-endian int32, record after record:
four n-gram slots padded with -1, the number of followers, then (token, count) for each of them.
The file has no header and no checksum, so everything in it is checked.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable
from pathlib import Path

from localspec.decoding.lookup_cache import DEFAULT_MAX_NGRAMS, NGRAM_MAX, LookupCache
from localspec.errors import CacheFileError
from localspec.whole_file import write_whole

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is refused: in memory it would take ten times its size."""

_PAD = -1
_INT = 4
_SIDECAR_MAX_BYTES = 4096


class ForeignCache(CacheFileError):
    """A sound lookup cache, but of another vocabulary."""


def read_lookup_file(
    path: Path,
    *,
    vocabulary: str | None = None,
    n_vocab: int | None = None,
    max_ngrams: int = DEFAULT_MAX_NGRAMS,
) -> LookupCache:
    """The cache in `path`, checked whole.

    vocabulary: fingerprint that the sidecar must name where there is one; llama.cpp's own files
    have none. n_vocab: token ids from here on are refused.
    Raises ForeignCache for another vocabulary, CacheFileError for everything else.
    """
    named = read_vocabulary(path)
    if vocabulary is not None and named is not None and named != vocabulary:
        raise ForeignCache(
            f"{path.name} was made with the vocabulary {named}, this model has {vocabulary}",
            hint="build one for this model: localspec cache build",
            path=str(path),
        )
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise CacheFileError(
                f"{path.name} has {size} bytes, a lookup cache may have {MAX_FILE_BYTES}",
                hint="build a smaller one: localspec cache build",
                path=str(path),
            )
        data = path.read_bytes()
    except OSError as error:
        raise CacheFileError(
            f"{path.name} cannot be read: {error.strerror}", path=str(path)
        ) from error
    cache = parse_lookup(data, name=path.name, n_vocab=n_vocab, max_ngrams=max_ngrams)
    if len(cache) > max_ngrams:
        cache.evict()
    return cache


def write_lookup_file(path: Path, cache: LookupCache, *, vocabulary: str) -> None:
    """Write `cache` and its sidecar; either appears whole or not at all.

    Raises CacheFileError when the disk refuses.
    """
    sidecar = {"format": "llama.cpp ngram-cache", "vocabulary": vocabulary, "ngrams": len(cache)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if read_vocabulary(path) != vocabulary:
            # The old data must never stand beside the new name of the vocabulary.
            path.unlink(missing_ok=True)
        # A sidecar alone is no cache; data alone would be a cache of an unknown vocabulary.
        write_whole(sidecar_path(path), json.dumps(sidecar, indent=1) + "\n", private=True)
        write_whole(path, serialise_lookup(cache), private=True)
    except OSError as error:
        raise CacheFileError(
            f"{path.name} cannot be written: {error.strerror}", path=str(path)
        ) from error


def sidecar_path(path: Path) -> Path:
    """`cache.bin.json` beside `cache.bin`."""
    return path.with_name(path.name + ".json")


def read_vocabulary(path: Path) -> str | None:
    """The fingerprint that the sidecar of `path` names; None when there is no sidecar.

    Raises CacheFileError when there is one that cannot be understood.
    """
    sidecar = sidecar_path(path)
    try:
        with sidecar.open("rb") as file:
            text = file.read(_SIDECAR_MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheFileError(
            f"{sidecar.name} cannot be read: {error.strerror}", path=str(sidecar)
        ) from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    vocabulary = content.get("vocabulary") if isinstance(content, dict) else None
    if not isinstance(vocabulary, str):
        raise CacheFileError(
            f"{sidecar.name} does not name a vocabulary",
            hint="remove it together with its cache: localspec cache clear",
            path=str(sidecar),
        )
    return vocabulary


def serialise_lookup(cache: LookupCache) -> bytes:
    """The bytes of `cache`: n-grams from the oldest to the newest, followers by descending count.

    The order is free in the format (llama.cpp writes that of its hash table).
    """
    words = array("i")
    for ngram, followers in cache:
        words.extend(ngram)
        words.extend([_PAD] * (NGRAM_MAX - len(ngram)))
        words.append(len(followers))
        for token, count in sorted(followers.items(), key=lambda item: (-item[1], item[0])):
            words.append(token)
            words.append(count)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def parse_lookup(
    data: bytes,
    *,
    name: str = "lookup cache",
    n_vocab: int | None = None,
    max_ngrams: int = DEFAULT_MAX_NGRAMS,
) -> LookupCache:
    """The cache that `data` describes. Memory is bounded by a multiple of its length.

    Raises CacheFileError for data that llama.cpp could not have written, ForeignCache for token
    ids from `n_vocab` on.
    """
    if len(data) % _INT:
        raise _broken(name, f"{len(data)} bytes are not a whole number of 32-bit integers")
    words = array("i", data)
    if sys.byteorder == "big":
        words.byteswap()
    limit = 2**31 if n_vocab is None else n_vocab
    cache = LookupCache(max_ngrams)
    position, end = 0, len(words)
    while position < end:
        if position + NGRAM_MAX + 1 > end:
            raise _broken(name, f"it ends inside the record at byte {position * _INT}")
        ngram = _unpadded(words[position : position + NGRAM_MAX])
        count = words[position + NGRAM_MAX]
        if ngram is None or count < 1:
            raise _broken(name, f"there is no record at byte {position * _INT}")
        first = position + NGRAM_MAX + 1
        if count > (end - first) // 2:
            raise _broken(
                name, f"the record at byte {position * _INT} claims {count} followers and ends"
            )
        position = first + 2 * count
        tokens, counts = words[first:position:2], words[first + 1 : position : 2]
        if min(tokens) < 0 or min(counts) < 1 or (count > 1 and len(set(tokens)) < count):
            raise _broken(name, f"impossible followers at byte {first * _INT}")
        if max(tokens) >= limit or max(ngram) >= limit:
            raise ForeignCache(
                f"{name} has token {max(max(tokens), max(ngram))}, this model has {limit} tokens",
                hint="build one for this model: localspec cache build",
            )
        if cache.followers(ngram):
            raise _broken(name, f"the n-gram {list(ngram)} stands in it twice")
        for token, seen in zip(tokens, counts, strict=True):
            cache.add(ngram, token, seen)
    return cache


def _unpadded(slots: Iterable[int]) -> tuple[int, ...] | None:
    """The n-gram in four slots; None unless tokens come first and padding last."""
    ngram: list[int] = []
    padded = False
    for slot in slots:
        if slot == _PAD:
            padded = True
        elif slot < 0 or padded:
            return None
        else:
            ngram.append(slot)
    return tuple(ngram) or None


def _broken(name: str, reason: str) -> CacheFileError:
    return CacheFileError(
        f"{name} is not a lookup cache: {reason}",
        hint="files made by localspec cache build or llama-lookup-create load here",
    )
