"""The dynamic lookup cache of one vocabulary on disk, shared by all processes of the user."""

from __future__ import annotations

import sys
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

    def clear(self) -> int:
        """Remove the cache from the disk with all that lies beside it; bytes that are free now.

        Raises CacheFileError, also where another process holds the lock.
        """
        freed = 0
        with self._locked("try again when it has ended"):
            try:
                for path in (self.path, sidecar_path(self.path), self.aside_path):
                    if path.exists():
                        freed += path.stat().st_size
                        path.unlink()
            except OSError as error:
                raise CacheFileError(
                    f"{self.path.name} cannot be deleted: {error.strerror}", path=str(self.path)
                ) from error
            if sys.platform != "win32":
                # Held until here: whoever waits for it finds it gone and makes a new one.
                self.lock_path.unlink(missing_ok=True)
        return freed

    @property
    def lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

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
    def _locked(self, otherwise: str = "what this session learned was not saved") -> Iterator[None]:
        """otherwise: what to say where another process does not let go of it."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.lock_path, timeout=LOCK_TIMEOUT_S)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise CacheFileError(
                f"{self.path.name} is in use by another process for over {LOCK_TIMEOUT_S:.0f} s",
                hint=otherwise,
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


def leftovers(folder: Path) -> list[Path]:
    """Caches of which only a lock, or what could not be read, is still in `folder`."""
    beside = (*folder.glob("*.bin.unreadable"), *folder.glob("*.bin.lock"))
    found = {path.with_name(path.name.rpartition(".")[0]) for path in beside}
    return sorted(path for path in found if not path.exists())


def store_path(folder: Path, vocabulary: str) -> Path:
    """The file of the dynamic cache for a vocabulary, in the user's lookup folder."""
    return folder / f"{vocabulary}.bin"
