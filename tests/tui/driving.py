"""Starting the application on a fake backend, and waiting for what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from localspec.tui.app import LocalspecApp
from localspec.tui.widgets.activity import Activity
from localspec.tui.widgets.transcript import Transcript
from tests.support.fake_backend import FakeBackend

PAIR = "qwen3-32b+0.6b"
AppPilot = Pilot[None]


@asynccontextmanager
async def running(
    backend: FakeBackend,
    *,
    screen: str = "",
    model: str = "",
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[AppPilot]:
    """The application with its first screen shown; not welcomed again unless the state says so."""
    backend.state.setdefault("welcomed", True)
    app = LocalspecApp(backend, screen=screen, model=model)
    async with app.run_test(size=size) as pilot:
        # Messages are handled in turn: this one after the application has mounted its screens.
        ready = asyncio.Event()
        app.call_later(ready.set)
        await ready.wait()
        await pilot.pause()
        yield pilot


@asynccontextmanager
async def chatting(
    backend: FakeBackend, *, model: str = PAIR, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[AppPilot]:
    """The chat screen with a pair in memory."""
    async with running(backend, screen="chat", model=model, size=size) as pilot:
        await until(pilot, lambda: backend.loaded is not None)
        await until(pilot, lambda: activity(pilot) == "")
        yield pilot


async def until(pilot: AppPilot, is_true: Callable[[], Any], *, tries: int = 500) -> None:
    """Wait until something is so; fails when it does not become so."""
    for _ in range(tries):
        if is_true():
            return
        await pilot.pause(0.02)
    raise AssertionError(f"it did not happen; the screen shows:\n{screen_text(pilot)}")


async def write(pilot: AppPilot, text: str, *, then: str = "") -> None:
    """Type a text, and press a key after it."""
    names = {" ": "space", "?": "question_mark", ".": "full_stop", "/": "slash", "-": "minus"}
    await pilot.press(*(names.get(character, character) for character in text))
    if then:
        await pilot.press(then)


async def ask(pilot: AppPilot, backend: FakeBackend, text: str) -> None:
    """Send a message and wait for the end of its answer."""
    before = count(backend, "answer")
    await write(pilot, text, then="enter")
    await until(pilot, lambda: count(backend, "answer") == before + 1 and is_idle(pilot))


def is_idle(pilot: AppPilot) -> bool:
    """Whether no answer is being written and none was just asked for."""
    session = session_of(pilot)
    return bool(session.turns) and session.turns[-1].role == "assistant"


def session_of(pilot: AppPilot) -> Any:
    return app_of(pilot).session


def app_of(pilot: AppPilot) -> LocalspecApp:
    assert isinstance(pilot.app, LocalspecApp)
    return pilot.app


def count(backend: FakeBackend, name: str) -> int:
    return sum(call[0] == name for call in backend.calls)


def last(backend: FakeBackend, name: str) -> Any:
    """Arguments of the latest call of this name."""
    return [call[1] for call in backend.calls if call[0] == name][-1]


def activity(pilot: AppPilot) -> str:
    """The line that says what goes on."""
    found = pilot.app.screen.query(Activity)
    return found.first().shown if found else ""


def transcript_text(pilot: AppPilot) -> str:
    """Everything in the transcript, seen or scrolled away."""
    transcript = pilot.app.screen.query_one(Transcript)
    return "\n".join(strip.text.rstrip() for strips in transcript.lines() for strip in strips)


def static_text(pilot: AppPilot, selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).render())


def screen_text(pilot: AppPilot) -> str:
    """What stands on the screen now, line by line."""
    width, height = pilot.app.size
    lines = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text[:width].rstrip() for strip in lines[:height])
