"""Keys come before the stream, and full garbage collections come when nobody waits."""

from __future__ import annotations

import asyncio
import gc

from localspec.tui.collecting import collect_if_due, rare_collections
from localspec.tui.pace import Pace
from tests.support.fake_backend import FakeBackend
from tests.tui.driving import app_of, chatting, is_idle, transcript_text, until, write


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_keys_the_stream_is_always_drawn() -> None:
    pace = Pace(Clock())
    assert all(pace.may_draw() for _ in range(5))


def test_after_a_key_the_stream_waits_and_then_goes_on() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.may_draw()
    pace.key()
    clock.now += 0.05
    assert not pace.may_draw()
    clock.now += 0.2
    assert pace.may_draw()


def test_somebody_who_types_without_a_pause_still_sees_the_answer_grow() -> None:
    clock = Clock()
    pace = Pace(clock)
    drawn = 0
    for _ in range(100):
        clock.now += 0.05
        pace.key()
        drawn += pace.may_draw()
    assert 8 <= drawn <= 15


def test_no_full_collection_happens_by_itself_and_the_settings_come_back() -> None:
    before = gc.get_threshold()
    full: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.append(phase)

    with rare_collections():
        gc.callbacks.append(note)
        try:
            kept = [[n] for n in range(400_000)]
            assert full == []
            collect_if_due()
            assert full == ["stop"]
            collect_if_due()
            assert full == ["stop"]
        finally:
            gc.callbacks.remove(note)
    assert len(kept) == 400_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_what_came_while_the_user_typed_is_not_lost(backend: FakeBackend) -> None:
    backend.script.hold = asyncio.Event()
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "compact" in transcript_text(pilot))
        backend.script.hold.set()
        while not is_idle(pilot):
            await pilot.press("x")
        assert app_of(pilot).session.turns[-1].content == backend.script.text
        assert "no special case" in transcript_text(pilot)
