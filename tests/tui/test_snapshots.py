"""Every screen at three sizes in both themes, compared with pictures that were looked at.

`LOCALSPEC_UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py` makes the pictures anew (gzipped
SVG, which browsers open). They hold for the version of Textual in `snapshots/VERSION`.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import textual
from textual.widgets import Input, TextArea

from localspec.chats.conversation import Turn
from localspec.tui.screens.fit import FitScreen
from localspec.tui.theme import DARK_NAME, LIGHT_NAME
from localspec.tui.widgets.model_table import ModelTable
from tests.support.fake_backend import THOUGHT, FakeBackend, some_downloads
from tests.tui.driving import (
    PAIR,
    AppPilot,
    activity,
    ask,
    count,
    is_idle,
    running,
    screen_text,
    until,
)

FOLDER = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 40), (200, 60))
THEMES = {"dark": DARK_NAME, "light": LIGHT_NAME}
UPDATE = os.environ.get("LOCALSPEC_UPDATE_SNAPSHOTS") == "1"

Act = Callable[[AppPilot, FakeBackend], Awaitable[None]]


async def _models(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
    await until(pilot, lambda: "✗ −22.4 GiB" in screen_text(pilot))
    await pilot.press("down", "down", "up")
    await until(pilot, lambda: count(backend, "fit"))


async def _welcome(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: "✗ −22.4 GiB" in screen_text(pilot))


async def _chat(pilot: AppPilot, backend: FakeBackend) -> None:
    backend.script.thinking = THOUGHT
    await until(pilot, lambda: backend.loaded is not None and activity(pilot) == "")
    await pilot.press("ctrl+s")
    await ask(pilot, backend, "A binary search tree")
    await pilot.press("ctrl+s", "ctrl+s", "ctrl+s", "ctrl+r")
    await until(pilot, lambda: count(backend, "answer") == 2 and is_idle(pilot))


async def _settings(pilot: AppPilot, backend: FakeBackend) -> None:
    await _chat(pilot, backend)
    await pilot.press("f2")


async def _chats(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: backend.loaded is not None and activity(pilot) == "")
    await pilot.press("ctrl+l")
    await until(pilot, lambda: "trees" in screen_text(pilot))


async def _fit(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: "headroom" in screen_text(pilot))
    await until(pilot, lambda: _is_probed(pilot))


async def _short(pilot: AppPilot, backend: FakeBackend) -> None:
    await _fit(pilot, backend)
    await pilot.press("right", "right")
    await until(pilot, lambda: "too much" in screen_text(pilot) and _is_probed(pilot))


def _is_probed(pilot: AppPilot) -> bool:
    screen = pilot.app.screen
    assert isinstance(screen, FitScreen)
    return screen.report is not None and screen.report.probed


async def _downloads(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: pilot.app.focused is not None)


async def _bench(pilot: AppPilot, backend: FakeBackend) -> None:
    await pilot.press("r")
    await until(pilot, lambda: "1.94×" in screen_text(pilot))
    backend.benches[0].release.set()
    await until(pilot, lambda: activity(pilot) == "done")


async def _log(pilot: AppPilot, backend: FakeBackend) -> None:
    await until(pilot, lambda: "offloaded" in screen_text(pilot))
    await until(pilot, lambda: "This machine" in screen_text(pilot))


async def _help(pilot: AppPilot, backend: FakeBackend) -> None:
    await _fit(pilot, backend)
    await pilot.press("question_mark")


VIEWS: dict[str, tuple[str, Act]] = {
    "models": ("models", _models),
    "welcome": ("models", _welcome),
    "chat": ("chat", _chat),
    "settings": ("chat", _settings),
    "chats": ("chat", _chats),
    "fit": ("fit", _fit),
    "fit-short": ("fit", _short),
    "downloads": ("downloads", _downloads),
    "bench": ("bench", _bench),
    "log": ("log", _log),
    "help": ("fit", _help),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", VIEWS)
async def test_the_screen_is_the_picture(
    backend: FakeBackend, name: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = FOLDER / "VERSION"
    if not UPDATE and version.read_text().strip() != textual.__version__:
        pytest.skip(f"the pictures are of Textual {version.read_text().strip()}")
    # How long the fake thought is of no interest, and would differ each time.
    monkeypatch.setattr("localspec.tui.screens.chat_answering.monotonic", lambda: 0.0)
    screen, act = VIEWS[name]
    backend.state["welcomed"] = name != "welcome"
    if name == "downloads":
        for item in some_downloads():
            backend.downloads.put(item)
    if name == "chats":
        _keep_conversations(backend)
    model = PAIR if screen in ("chat", "fit", "bench") else ""
    async with running(backend, screen=screen, model=model, size=size) as pilot:
        await until(
            pilot, lambda: "RTX 4090" in screen_text(pilot).splitlines()[0] or size[0] < 100
        )
        await act(pilot, backend)
        for theme, theme_name in THEMES.items():
            pilot.app.theme = theme_name
            for field in pilot.app.screen.query("Input, TextArea"):
                assert isinstance(field, Input | TextArea)
                field.cursor_blink = False
            await pilot.pause(0.15)
            kept = f"{name}-{size[0]}x{size[1]}-{theme}"
            # A repaint may still be under way on a slow machine: it is waited for, not judged.
            for _ in range(30):
                if UPDATE or _picture(pilot) == _kept(kept):
                    break
                await pilot.pause(0.1)
            _compare(kept, _picture(pilot))


def _picture(pilot: AppPilot) -> str:
    """The prefix of ids says nothing about the picture."""
    return re.sub(r"terminal-\d+", "terminal", pilot.app.export_screenshot())


def _kept(name: str) -> str:
    return gzip.decompress((FOLDER / f"{name}.svgz").read_bytes()).decode()


def _compare(name: str, svg: str) -> None:
    path = FOLDER / f"{name}.svgz"
    if UPDATE:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "VERSION").write_text(f"{textual.__version__}\n")
        path.write_bytes(gzip.compress(svg.encode(), mtime=0))
        return
    if svg != _kept(name):
        actual = Path(os.environ.get("LOCALSPEC_SNAPSHOT_OUT", Path(".cache") / "snapshots"))
        actual.mkdir(parents=True, exist_ok=True)
        (actual / f"{name}.svg").write_text(svg)
        raise AssertionError(f"{name} does not look as before; see {actual / name}.svg")


def _keep_conversations(backend: FakeBackend) -> None:
    for words in ("Explain red-black trees", "Why is the sky blue?", "Summarise this log"):
        chat = backend.chats.new(PAIR)
        chat.id = words.replace("?", "")
        chat.turns += [Turn("user", words), Turn("assistant", f"About trees: {words}")]
        path = backend.chats.save(chat)
        text = re.sub(r'"saved": "[^"]*"', '"saved": "2026-05-02T10:00:00+00:00"', path.read_text())
        path.write_text(text)
        # The list is ordered by the time of the files.
        stamp = 1_780_000_000 + len(words)
        os.utime(path, (stamp, stamp))
