"""The folder of finished model files. A file under its final name is whole and verified."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from localspec.catalog.entries import HubSource, PathSource, Source, WheelSource
from localspec.errors import DownloadError, UsageError
from localspec.hub.locking import lock_at_once
from localspec.hub.safename import safe_component, safe_relative
from localspec.hub.verified import VerifiedFiles
from localspec.units import format_file_size
from localspec.whole_file import write_whole

_PARTIAL = ".partial"
_RECORDS = ".records"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What is known of a finished file; kept beside the models, one small JSON file each."""

    origin: str
    """Where it came from, as `str(source)` of the catalogue writes it."""
    sha256: str
    size: int
    mtime_ns: int
    """Of the file when it was finished: another value means that it was changed since."""
    commit: str = ""
    """Commit of the repository; empty for wheels."""
    wanted_by: tuple[str, ...] = ()
    """Pairs that were pulled and need it: it may go when the last of them is removed."""


class Store:
    """Finished files under `root`; unfinished ones, records and locks in hidden folders of it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def elsewhere(self) -> VerifiedFiles:
        """What is known of files in other programs' folders."""
        return VerifiedFiles(self.root / _RECORDS / "elsewhere.json")

    def path_for(self, source: Source) -> Path:
        """Where the finished file of `source` belongs. Raises UsageError for hostile names."""
        match source:
            case HubSource(repo=repo, filename=filename, revision=revision):
                if filename is None:
                    raise ValueError("a repository alone names no file")
                return self.root / _repo_folder(repo, revision) / safe_relative(filename)
            case WheelSource(filename=filename):
                return self.root / "wheels" / safe_component(filename)
            case PathSource(path=path):
                return path

    def held(self, source: HubSource) -> list[tuple[str, str]]:
        """Repository and file name of what is finished of the repository of `source`.

        Upper and lower case of the repository are alike, as on the Hub.
        """
        wanted = _repo_folder(source.repo, source.revision).lower()
        folders = self.root.iterdir() if self.root.is_dir() else ()
        held = []
        for folder in folders:
            if folder.name.lower() != wanted or not folder.is_dir():
                continue
            for path in folder.rglob("*"):
                record = self.record(path) if path.name.lower().endswith(".gguf") else None
                if record is not None:
                    origin = record.origin.removesuffix(f"@{source.revision}")
                    owner, name, filename = origin.split("/", 2)
                    held.append((f"{owner}/{name}", filename))
        return sorted(held)

    def partial_for(self, final: Path) -> Path:
        """The quarantine name of a file on its way to `final`."""
        return self.root / _PARTIAL / final.relative_to(self.root)

    def record(self, final: Path) -> FileRecord | None:
        """The record of a finished file; None when there is none or the file changed since."""
        try:
            data = json.loads(self._record_path(final).read_text(encoding="utf-8"))
            record = FileRecord(**{**data, "wanted_by": tuple(data.get("wanted_by", ()))})
            stat = final.stat()
        except (OSError, ValueError, TypeError):
            return None
        unchanged = stat.st_size == record.size and stat.st_mtime_ns == record.mtime_ns
        return record if unchanged else None

    def finish(self, partial: Path, final: Path, *, origin: str, sha256: str, commit: str) -> None:
        """Give a verified file its final name, durably, with its record."""
        final.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        # The record first: without its file it says nothing, but a file without its record would
        # be fetched again.
        self._record_verified(partial, final, origin, sha256, commit)
        partial.replace(final)

    def adopt(self, final: Path, *, origin: str, sha256: str) -> None:
        """Record a file that lies under its final name and has just been verified there."""
        self._record_verified(final, final, origin, sha256, "")

    def _record_verified(
        self, file: Path, final: Path, origin: str, sha256: str, commit: str
    ) -> None:
        stat = file.stat()
        record = FileRecord(origin, sha256, stat.st_size, stat.st_mtime_ns, commit)
        self._write_record(final, record)

    def want(self, final: Path, pair_id: str) -> None:
        """Note that the pair `pair_id` needs this finished file; an empty id needs nothing."""
        record = self.record(final)
        if record is not None and pair_id and pair_id not in record.wanted_by:
            self._write_record(final, replace(record, wanted_by=(*record.wanted_by, pair_id)))

    def wanted_by_others(self, final: Path, pair_id: str) -> tuple[str, ...]:
        """Which pairs besides `pair_id` need the file."""
        record = self.record(final)
        wanted = record.wanted_by if record is not None else ()
        return tuple(other for other in wanted if other != pair_id)

    def unwant(self, final: Path, pair_id: str) -> tuple[str, ...]:
        """Note that the pair `pair_id` needs the file no more; which pairs still do."""
        record, others = self.record(final), self.wanted_by_others(final, pair_id)
        if record is not None and others != record.wanted_by:
            self._write_record(final, replace(record, wanted_by=others))
        return others

    def remove(self, final: Path) -> int:
        """Delete a finished file with its record; bytes freed. Folders left empty go too."""
        size = final.stat().st_size
        final.unlink()
        self._record_path(final).unlink(missing_ok=True)
        for folder in (final.parent, self._record_path(final).parent):
            self._prune(folder)
        return size

    def discard_partial(self, final: Path, *, dry_run: bool = False) -> int:
        """Delete what was fetched towards `final`; bytes freed. dry_run: only counts them.

        Raises UsageError while a process is fetching it.
        """
        partial = self.partial_for(final)
        if not partial.parent.is_dir():
            return 0
        freed = 0
        with lock_at_once(self.lock_path(final)) as held:
            if not held:
                raise UsageError(
                    f"{final.name} is being downloaded by another process",
                    hint="stop that one first",
                    path=str(final),
                )
            names = ("", ".state", ".whole")
            for leftover in [partial.with_name(f"{partial.name}{suffix}") for suffix in names]:
                with contextlib.suppress(FileNotFoundError):
                    freed += leftover.stat().st_size
                    if not dry_run:
                        leftover.unlink()
        return freed

    def holds(self, path: Path) -> bool:
        """Whether `path` lies in this store."""
        return path.resolve().is_relative_to(self.root.resolve())

    def files(self) -> Iterator[Path]:
        """Every finished GGUF file, in order of name."""
        if not self.root.is_dir():
            return
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.lower().endswith(".gguf"):
                    yield Path(folder, name)

    def check_space(self, needed: int) -> None:
        """Raises DownloadError when fewer than `needed` bytes are free where the store lies."""
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise DownloadError(
                f"{format_file_size(needed)} to download, "
                f"{format_file_size(free)} free in {self.root}",
                hint="free some space, or set LOCALSPEC_HOME to a larger disk",
                needed=needed,
                free=free,
                folder=str(self.root),
            )

    def lock_path(self, final: Path) -> Path:
        partial = self.partial_for(final)
        return partial.with_name(f"{partial.name}.lock")

    def _record_path(self, final: Path) -> Path:
        relative = final.relative_to(self.root)
        return self.root / _RECORDS / relative.with_name(f"{relative.name}.json")

    def _write_record(self, final: Path, record: FileRecord) -> None:
        path = self._record_path(final)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(record)))

    def _prune(self, folder: Path) -> None:
        while folder != self.root and folder.is_relative_to(self.root):
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _repo_folder(repo: str, revision: str | None) -> str:
    folder = repo.replace("/", "--", 1) + (f"@{revision}" if revision else "")
    # A revision such as refs/pr/1 is one name here, not three folders.
    return safe_component(folder.replace("/", "%2F"))


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the disk's own failures into DownloadError: full, read-only, forbidden."""
    import errno

    try:
        yield
    except OSError as error:
        if isinstance(error, (ConnectionError, TimeoutError)) or error.errno is None:
            raise
        reasons = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EROFS: "the disk is read-only",
            errno.EACCES: "permission denied",
            errno.EPERM: "permission denied",
            errno.ENAMETOOLONG: "the name is too long",
        }
        reason = reasons.get(error.errno, error.strerror or str(error))
        raise DownloadError(
            f"cannot write {path}: {reason}",
            hint="what was fetched so far is kept; free space and pull again"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "LOCALSPEC_HOME chooses another folder",
            path=str(path),
        ) from error
