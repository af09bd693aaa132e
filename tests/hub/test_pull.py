"""A pull without trouble: what arrives, where, and what is told meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from localspec.errors import DownloadError
from localspec.events import DownloadProgress
from localspec.hub.control import Cancelled, PullControl
from localspec.hub.failures import RetryPolicy
from localspec.hub.pull import plan_pull, pull
from localspec.hub.resolve import LocalFile
from tests.hub.conftest import DRAFT_FILE, FAST, TARGET_FILE, TARGET_REPO, World


def test_both_files_arrive_verified_under_their_final_names(world: World) -> None:
    pulled = world.pull()
    assert [file.role for file in pulled] == ["target", "draft"]
    assert pulled[0].path.read_bytes() == world.target
    assert pulled[1].path.read_bytes() == world.draft
    assert [file.sha256 for file in pulled] == [world.sha256("target"), world.sha256("draft")]
    assert [file.downloaded_bytes for file in pulled] == [len(world.target), len(world.draft)]
    assert world.finished == [TARGET_FILE, DRAFT_FILE]


def test_plan_knows_every_byte_before_the_first(world: World) -> None:
    plan = world.plan()
    assert plan.to_fetch == len(world.target) + len(world.draft)
    assert world.hub.requests("storage") == []


def test_no_room_is_said_before_the_first_byte(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 3_399_999}))
    with pytest.raises(DownloadError, match=r"3\.4 MB to download, 3\.4 MB free"):
        world.plan()
    assert world.hub.requests("storage") == []


def test_second_pull_downloads_nothing(world: World) -> None:
    world.pull()
    before = len(world.hub.log)
    assert [file.downloaded_bytes for file in world.pull()] == [0, 0]
    assert len(world.hub.log) == before


def test_pulled_files_are_resolved_from_disk(world: World) -> None:
    world.pull()
    resolved = world.resolve()
    assert isinstance(resolved.target, LocalFile)
    assert isinstance(resolved.draft, LocalFile)
    assert resolved.missing == ()


def test_progress_grows_and_ends_with_done(world: World) -> None:
    events: list[DownloadProgress] = []
    world.hub.rate = 10_000_000
    world.pull(events=events)
    for role, size in (("target", len(world.target)), ("draft", len(world.draft))):
        mine = [event for event in events if event.role == role]
        assert mine[-1].stage == "done"
        assert mine[-1].done == mine[-1].total == size
        done = [event.done for event in mine]
        assert done == sorted(done)
    middle = [event for event in events if event.role == "target" and event.rate]
    assert middle, "the target takes 0.3 s: its rate must have been told"


def test_both_files_come_at_once(world: World) -> None:
    world.hub.rate = 3_000_000
    events: list[DownloadProgress] = []
    world.pull(events=events)
    began = {event.role: index for index, event in reversed(list(enumerate(events)))}
    ended = {event.role: index for index, event in enumerate(events) if event.stage == "done"}
    assert max(began.values()) < min(ended.values())


def test_cancel_stops_and_keeps_what_arrived(world: World) -> None:
    control = PullControl()
    world.hub.rate = 2_000_000
    plan = world.plan()

    def on_event(event: DownloadProgress) -> None:
        if event.role == "target" and event.done > 200_000:
            control.cancel()

    with pytest.raises(Cancelled):
        pull(plan, on_event, control=control, policy=FAST)
    assert TARGET_FILE not in world.finished
    world.hub.rate = None
    again = world.plan()
    assert again.resumed_bytes > 200_000
    pulled = world.pull()
    assert pulled[0].resumed
    assert pulled[0].downloaded_bytes < len(world.target)
    assert pulled[0].path.read_bytes() == world.target


def test_pause_closes_the_connection_and_resume_goes_on(world: World) -> None:
    control = PullControl()
    world.hub.rate = 4_000_000
    paused = threading.Event()

    def on_event(event: DownloadProgress) -> None:
        if event.role == "target" and event.done > 300_000 and not paused.is_set():
            paused.set()
            control.pause()
            threading.Timer(0.2, control.resume).start()

    pulled = pull(world.plan(), on_event, control=control, policy=FAST)
    assert paused.is_set()
    assert pulled[0].path.read_bytes() == world.target
    ranges = [r.range for r in world.hub.requests("storage") if TARGET_FILE in r.path]
    assert len(ranges) == 2
    assert ranges[0] is None
    assert ranges[1] is not None


def test_control_of_a_finished_pull_is_not_cancelled(world: World) -> None:
    control = PullControl()
    pull(world.plan(), lambda _: None, control=control, policy=FAST)
    assert not control.cancelled


def test_nobody_is_asked_for_what_is_on_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.pull()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert plan_pull(world.resolve()).to_fetch == 0


def test_failure_of_the_listener_stops_the_pull_and_is_raised(world: World) -> None:
    world.hub.rate = 2_000_000

    def on_event(event: DownloadProgress) -> None:
        if event.stage == "downloading":
            raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError):
        pull(world.plan(), on_event, policy=FAST)
    assert TARGET_FILE not in world.finished
    assert len(world.hub.requests("storage")) <= 2


def test_network_that_is_away_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from localspec.hub.client import HubClient

    plan = world.plan()
    here = world.hub.endpoint
    asked: list[int] = []

    def endpoint(_: HubClient) -> str:
        asked.append(1)
        return here if len(asked) > 30 else "http://127.0.0.1:9"

    monkeypatch.setattr(HubClient, "endpoint", property(endpoint))
    patient = RetryPolicy(attempts=2, patient_attempts=50, base_s=0.01, longest_s=0.02)
    assert pull(plan, lambda _: None, policy=patient)[0].path.read_bytes() == world.target


def test_a_file_without_a_record_is_verified_and_taken(world: World) -> None:
    for planned, content in zip(world.plan().files, (world.target, world.draft), strict=True):
        planned.path.parent.mkdir(parents=True)
        planned.path.write_bytes(content)
    assert [file.downloaded_bytes for file in world.pull()] == [0, 0]
    assert world.hub.requests("storage") == []
    assert world.resolve().missing == ()


def test_a_wrong_file_without_a_record_is_replaced(world: World) -> None:
    planned = world.plan().files[0]
    planned.path.parent.mkdir(parents=True)
    planned.path.write_bytes(bytes(len(world.target)))
    assert world.pull()[0].path.read_bytes() == world.target


def test_killed_before_the_rename_the_bytes_are_not_fetched_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if target.name == TARGET_FILE:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        world.pull()
    monkeypatch.undo()
    monkeypatch.setenv("HF_ENDPOINT", world.hub.endpoint)
    assert world.pull()[0].path.read_bytes() == world.target
    assert world.hub.bytes_sent(world.sha256("target")) == len(world.target)


def test_a_mirror_whose_etags_are_no_hashes_is_verified_by_the_listing(world: World) -> None:
    world.hub.hashes_as_etags = False
    name = f"{TARGET_REPO}/{TARGET_FILE}"
    pulled = world.pull(name)
    assert pulled[0].sha256 == world.sha256("target")
    assert pulled[0].path.read_bytes() == world.target
