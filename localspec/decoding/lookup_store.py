"""The dynamic lookup cache of one vocabulary on disk, shared by all processes of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localspec.decoding.lookup_cache import DEFAULT_MAX_NGRAMS, LookupCache
from localspec.decoding.lookup_file import (
    ForeignCache,
    read_lookup_file,
    sidecar_path,
    write_lookup_file,
)
from localspec.errors import CacheFileError

LOCK_TIMEOUT_S = 3.0


class LookupStore:
    """Loads the cache at the start of a session and adds the session's new counts at its end."""

    def __init__(
        self,
        path: Path,
        vocabulary: str,
        *,
        n_vocab: int | None = None,
        max_ngrams: int = DEFAULT_MAX_NGRAMS,
    ) -> None:
        """vocabulary: fingerprint of the target's vocabulary; see `store_path` for `path`."""
        self.path = path
        self.vocabulary = vocabulary
        self._n_vocab = n_vocab
        self._max_ngrams = max_ngrams

    def load(self) -> LookupCache:
        """What is on disk; an empty cache when there is nothing yet.

        Raises CacheFileError when what is there cannot be used (ForeignCache: another vocabulary).
        Readers need no lock: files are replaced whole.
        """
        if not self.path.exists():
            return LookupCache(self._max_ngrams)
        return read_lookup_file(
            self.path,
            vocabulary=self.vocabulary,
            n_vocab=self._n_vocab,
            max_ngrams=self._max_ngrams,
        )

    def save(self, new: LookupCache) -> None:
        """Add the counts in `new`, which are this session's alone, to whatever is on disk now.

        A lock between processes covers reading, merging and writing: nothing that another process
        saved in the meantime is lost. An unreadable file is set aside, never overwritten; a cache
        of another vocabulary is left alone and refused. Raises CacheFileError.
        """
        if not len(new):
            return
        with self._locked():
            try:
                cache = self.load()
            except ForeignCache:
                raise
            except CacheFileError:
                self._set_aside()
                cache = LookupCache(self._max_ngrams)
            cache.merge(new)
            write_lookup_file(self.path, cache, vocabulary=self.vocabulary)

    def clear(self) -> None:
        """Remove the cache from the disk."""
        with self._locked():
            self.path.unlink(missing_ok=True)
            sidecar_path(self.path).unlink(missing_ok=True)

    @property
    def aside_path(self) -> Path:
        """Where `save` puts a file that cannot be read."""
        return self.path.with_name(self.path.name + ".unreadable")

    def _set_aside(self) -> None:
        try:
            self.path.replace(self.aside_path)
            sidecar_path(self.path).unlink(missing_ok=True)
        except OSError as error:
            raise CacheFileError(
                f"{self.path.name} can be neither read nor moved: {error.strerror}",
                path=str(self.path),
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.path.with_name(self.path.name + ".lock"), timeout=LOCK_TIMEOUT_S)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise CacheFileError(
                f"{self.path.name} is in use by another process for over {LOCK_TIMEOUT_S:.0f} s",
                hint="what this session learned was not saved",
                path=str(self.path),
            ) from error
        except OSError as error:
            raise CacheFileError(
                f"{self.path.name} cannot be locked: {error.strerror}", path=str(self.path)
            ) from error
        try:
            yield
        finally:
            lock.release()


def store_path(folder: Path, vocabulary: str) -> Path:
    """The file of the dynamic cache for a vocabulary, in the user's lookup folder."""
    return folder / f"{vocabulary}.bin"
