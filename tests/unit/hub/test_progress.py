"""Progress: not more events than eyes can follow, a rate that follows what arrives."""

from __future__ import annotations

from localspec.events import DownloadProgress
from localspec.hub.progress import FileProgress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _progress(total: int) -> tuple[FileProgress, list[DownloadProgress], Clock]:
    events: list[DownloadProgress] = []
    clock = Clock()
    return FileProgress("target", "m", total, events.append, clock), events, clock


def test_events_come_ten_times_a_second_at_most() -> None:
    progress, events, clock = _progress(10_000)
    progress.start("downloading")
    for _ in range(10_000):
        clock.now += 0.0002
        progress.advance(1)
    assert 15 <= len(events) <= 22


def test_rate_is_bytes_per_second() -> None:
    progress, events, clock = _progress(10**9)
    progress.start("downloading", 500)
    for _ in range(100):
        clock.now += 0.1
        progress.advance(1000)
    assert abs(events[-1].rate - 10_000) < 1


def test_rate_follows_a_change_within_seconds() -> None:
    progress, events, clock = _progress(10**9)
    progress.start("downloading")
    for step in range(200):
        clock.now += 0.1
        progress.advance(1000 if step < 100 else 100)
    assert abs(events[-1].rate - 1000) < 600


def test_bytes_from_before_are_no_rate() -> None:
    progress, events, clock = _progress(10**9)
    progress.start("downloading", 10**8)
    clock.now += 1.0
    progress.advance(10)
    assert events[-1].rate == 10.0


def test_every_stage_is_told_at_once() -> None:
    progress, events, _ = _progress(10)
    for stage in ("waiting", "downloading", "verifying", "done"):
        progress.start(stage)
    assert [event.stage for event in events] == ["waiting", "downloading", "verifying", "done"]


def test_a_new_total_is_told() -> None:
    progress, events, _ = _progress(10)
    progress.start("downloading", 0, 20)
    assert events[-1].total == 20
