"""Every fault is either recovered from, or told in one line; no half file gets a final name."""

from __future__ import annotations

import pytest

from localspec.errors import DownloadError
from localspec.events import DownloadProgress
from localspec.hub.pull import pull
from localspec.hub.store import Store
from tests.hub.conftest import DRAFT_FILE, FAST, TARGET_FILE, TARGET_REPO, World
from tests.support.fake_hub import Fault, HubFile

RECOVERED = {
    "drop": [Fault(drop_after=1_000_000)],
    "drop at once": [Fault(drop_after=0)],
    "drop three times": [Fault(drop_after=500_000)] * 3,
    "stall": [Fault(stall_after=700_000)],
    "polite end too early": [Fault(cut_after=800_000)],
    "no ranges after a drop": [Fault(drop_after=1_500_000), Fault(no_range=True)],
    "another range than asked": [Fault(drop_after=1_500_000), Fault(wrong_range=True)],
    "429 with Retry-After": [Fault(status=429, headers={"Retry-After": "1"})],
    "503 twice": [Fault(status=503)] * 2,
    "500, drop, 502": [Fault(status=500), Fault(drop_after=900_000), Fault(status=502)],
    "416": [Fault(drop_after=900_000), Fault(status=416)],
}


@pytest.mark.parametrize("name", RECOVERED)
def test_recovers_from(name: str, world: World) -> None:
    world.hub.fault(TARGET_FILE, *RECOVERED[name])
    pulled = world.pull()
    assert pulled[0].path.read_bytes() == world.target
    assert pulled[1].path.read_bytes() == world.draft
    assert not world.hub.storage_faults[TARGET_FILE], "every fault must have happened"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_recovers_when_the_hub_itself_stumbles(status: int, world: World) -> None:
    world.hub.hub_faults.extend([Fault(status=status)] * 2)
    assert world.pull()[0].path.read_bytes() == world.target
    assert not world.hub.hub_faults


TOLD = {
    "503 for ever": ([Fault(status=503)] * 20, "503"),
    "404 in the storage": ([Fault(status=404)] * 20, "answered 404"),
    "drop at the same byte for ever": ([Fault(drop_after=0)] * 20, "connection"),
    "no ranges and drops for ever": (
        [Fault(drop_after=1_000_000, no_range=True)] * 20,
        "connection",
    ),
    "429 for an hour": (
        [Fault(status=429, headers={"Retry-After": "3600"})],
        "429.*3600 s",
    ),
    "one wrong byte": ([Fault(flip_byte=1_234_567)], "sha256"),
    "wrong bytes in a resumed file": (
        [Fault(drop_after=1_000_000), Fault(flip_byte=2_000_000)],
        "sha256",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_tells_in_one_line(name: str, world: World) -> None:
    faults, pattern = TOLD[name]
    world.hub.fault(TARGET_FILE, *faults)
    with pytest.raises(DownloadError, match=pattern) as caught:
        world.pull()
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message + caught.value.hint
    assert TARGET_FILE not in world.finished


@pytest.mark.parametrize("name", TOLD)
def test_pulling_again_after_it_works(name: str, world: World) -> None:
    faults, pattern = TOLD[name]
    world.hub.fault(TARGET_FILE, *faults)
    with pytest.raises(DownloadError, match=pattern):
        world.pull()
    world.hub.storage_faults.clear()
    assert world.pull()[0].path.read_bytes() == world.target


def test_a_wrong_file_on_the_hub_is_refused_before_the_first_byte(world: World) -> None:
    world.hub.repos[TARGET_REPO].files[TARGET_FILE] = HubFile(b"another file")
    with pytest.raises(DownloadError, match="changed on the Hub"):
        world.plan()
    assert world.hub.requests("storage") == []


def test_a_file_that_lies_about_its_hash_is_deleted(world: World) -> None:
    honest = world.hub.repos[TARGET_REPO].files[TARGET_FILE].sha256
    lie = HubFile(world.target[:-1] + b"?", sha256=honest)
    world.hub.repos[TARGET_REPO].files[TARGET_FILE] = lie
    with pytest.raises(DownloadError, match="sha256"):
        world.pull()
    store = Store(world.paths.models)
    planned = world.plan().files[0]
    assert not store.partial_for(planned.path).exists()
    assert TARGET_FILE not in world.finished


def test_a_file_that_changes_on_the_hub_while_it_comes_is_fetched_anew(world: World) -> None:
    name = f"{TARGET_REPO}/{TARGET_FILE}"
    world.hub.fault(TARGET_FILE, *[Fault(drop_after=1_000_000)], *[Fault(status=404)])
    with pytest.raises(DownloadError):
        world.pull(name)
    new = bytes(reversed(world.target))
    world.hub.repos[TARGET_REPO].files[TARGET_FILE] = HubFile(new)
    notes: list[str] = []
    (pulled,) = pull(world.plan(name), lambda _: None, on_note=notes.append, policy=FAST)
    assert pulled.path.read_bytes() == new
    assert not pulled.resumed
    assert len(notes) == 1
    assert f"{name} has changed on the Hub" in notes[0]


def test_a_change_within_one_pull_is_told_in_one_line(world: World) -> None:
    name = f"{TARGET_REPO}/{TARGET_FILE}"
    world.hub.fault(TARGET_FILE, Fault(drop_after=1_000_000))
    new = bytes(reversed(world.target))
    notes: list[str] = []

    def change_midway(event: DownloadProgress) -> None:
        if event.stage == "waiting" and event.done:
            world.hub.repos[TARGET_REPO].files[TARGET_FILE] = HubFile(new)

    (pulled,) = pull(world.plan(name), change_midway, on_note=notes.append, policy=FAST)
    assert pulled.path.read_bytes() == new
    assert ["another version" in note for note in notes] == [True]


def test_a_pull_without_a_change_tells_nothing(world: World) -> None:
    world.hub.fault(TARGET_FILE, Fault(drop_after=1_000_000), Fault(drop_after=500_000))
    notes: list[str] = []
    pull(world.plan(), lambda _: None, on_note=notes.append, policy=FAST)
    assert notes == []


def test_a_change_between_plan_and_pull_is_followed(world: World) -> None:
    plan = world.plan(f"{TARGET_REPO}/{TARGET_FILE}")
    new = world.target + b"and more"
    world.hub.repos[TARGET_REPO].files[TARGET_FILE] = HubFile(new)
    assert pull(plan, lambda _: None, policy=FAST)[0].path.read_bytes() == new


def test_damage_to_the_kept_bytes_is_noticed_and_mended(world: World) -> None:
    world.hub.fault(TARGET_FILE, Fault(drop_after=1_000_000), Fault(status=404))
    with pytest.raises(DownloadError):
        world.pull()
    partial = Store(world.paths.models).partial_for(world.plan().files[0].path)
    damaged = bytearray(partial.read_bytes())
    assert len(damaged) > 10
    damaged[7] ^= 1
    partial.write_bytes(damaged)
    assert world.pull()[0].path.read_bytes() == world.target


def test_the_other_file_survives_a_failure(world: World) -> None:
    world.hub.fault(TARGET_FILE, *[Fault(status=503)] * 20)
    with pytest.raises(DownloadError):
        world.pull()
    world.hub.storage_faults.clear()
    world.pull()
    draft_sha256 = world.sha256("draft")
    assert world.hub.bytes_sent(draft_sha256) <= 2 * len(world.draft)
    assert world.finished == [TARGET_FILE, DRAFT_FILE]


def test_a_full_disk_is_one_line_and_keeps_what_arrived(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from localspec.hub.partial import PartialFile

    append = PartialFile.append

    def full(self: PartialFile, data: bytes) -> None:
        if self.hashed > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    monkeypatch.setattr(PartialFile, "append", full)
    with pytest.raises(DownloadError, match="the disk is full"):
        world.pull()
    monkeypatch.undo()
    assert TARGET_FILE not in world.finished
