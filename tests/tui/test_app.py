"""The application itself: routes, state, help, palette, themes, and the end."""

from __future__ import annotations

import asyncio

import pytest

from localspec.tui.theme import DARK_NAME, LIGHT_NAME
from localspec.tui.widgets.help_panel import HelpPanel
from localspec.tui.widgets.model_table import ModelTable
from localspec.tui.widgets.topbar import SCREENS
from tests.support.fake_backend import FakeBackend
from tests.tui.driving import (
    PAIR,
    app_of,
    ask,
    chatting,
    running,
    screen_text,
    session_of,
    transcript_text,
    until,
    write,
)


async def test_every_screen_has_a_key_and_a_tab(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        for name, title, key in SCREENS:
            await pilot.press(key)
            assert pilot.app.current_mode == name
            assert title in screen_text(pilot).splitlines()[0]
        await pilot.click("TopTab")
        assert pilot.app.current_mode == "models"


@pytest.mark.parametrize("name", [name for name, _, _ in SCREENS])
async def test_help_explains_each_screen_and_lists_its_keys(
    backend: FakeBackend, name: str
) -> None:
    async with running(backend, screen=name) as pilot:
        await pilot.press("f1")
        panel = pilot.app.screen.query_one(HelpPanel)
        assert panel.has_focus
        await pilot.pause()
        text = str(panel.query_one("Static").render())
        assert "Keys" in text
        assert "Quit" in text
        await pilot.press("escape")
        await pilot.pause()
        assert not pilot.app.screen.query(HelpPanel)


async def test_the_question_mark_asks_for_help_where_nobody_writes(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await pilot.press("question_mark")
        assert pilot.app.screen.query(HelpPanel)
        await pilot.press("question_mark")
        await pilot.pause()
        assert not pilot.app.screen.query(HelpPanel)


async def test_the_palette_finds_what_a_screen_can_do(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("ctrl+p")
        await write(pilot, "sort")
        await until(pilot, lambda: "Sort" in screen_text(pilot))
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: "by pair" in screen_text(pilot))


async def test_f10_turns_dark_to_light_and_it_is_kept(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        assert pilot.app.theme == DARK_NAME
        await pilot.press("f10")
        assert pilot.app.theme == LIGHT_NAME
        await pilot.press("ctrl+q")
    assert backend.state["theme"] == LIGHT_NAME
    async with running(backend) as pilot:
        assert pilot.app.theme == LIGHT_NAME


@pytest.mark.parametrize("name", [name for name, _, _ in SCREENS])
async def test_the_theme_changes_on_every_screen_while_it_is_shown(
    backend: FakeBackend, name: str
) -> None:
    model = PAIR if name in ("chat", "fit", "bench") else ""
    async with running(backend, screen=name, model=model) as pilot:
        before = screen_text(pilot)
        await pilot.press("f10")
        await pilot.pause()
        assert not pilot.app.current_theme.dark
        assert screen_text(pilot).splitlines()[0] == before.splitlines()[0]


async def test_state_survives_a_restart(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await ask(pilot, backend, "remember me")
        await pilot.press("ctrl+s")
        await pilot.press("f2")
        await write(pilot, "Be kind")
        await pilot.press("ctrl+q")
    assert backend.closed
    async with running(backend) as pilot:
        assert pilot.app.current_mode == "chat"
        session = session_of(pilot)
        assert session.method == "none"
        assert session.settings.system == "Be kind"
        await pilot.press("up")
        assert "remember me" in screen_text(pilot)
        await write(pilot, "", then="enter")
        await until(pilot, lambda: backend.loaded is not None)
        assert backend.loaded is not None
        assert backend.loaded.id == PAIR


async def test_a_damaged_state_is_a_first_start(backend: FakeBackend) -> None:
    backend.state = {"theme": 5, "history": "x", "settings": {"temp": "hot"}, "method": "magic"}
    async with running(backend) as pilot:
        assert pilot.app.current_mode == "models"
        assert session_of(pilot).settings.temp == 0.8


async def test_quitting_in_the_middle_of_an_answer_is_quick_and_keeps_the_state(
    backend: FakeBackend,
) -> None:
    backend.script.hold = asyncio.Event()
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "compact" in transcript_text(pilot))
        await pilot.press("ctrl+q")
    assert backend.closed
    assert backend.state["history"] == ["hi"]


async def test_an_answer_goes_on_while_another_screen_is_shown(backend: FakeBackend) -> None:
    backend.script.hold = asyncio.Event()
    async with chatting(backend) as pilot:
        await write(pilot, "hi", then="enter")
        await until(pilot, lambda: "compact" in transcript_text(pilot))
        await pilot.press("f3")
        backend.script.hold.set()
        await until(pilot, lambda: len(session_of(pilot).turns) == 2)
        await pilot.press("f4")
        await until(pilot, lambda: "O(log n)" in screen_text(pilot))


async def test_fit_and_bench_turn_to_the_pair_of_the_chat(backend: FakeBackend) -> None:
    async with chatting(backend) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: f"Fit: {PAIR}" in screen_text(pilot))
        await pilot.press("f7")
        await until(pilot, lambda: f"Results: {PAIR}" in screen_text(pilot))


@pytest.mark.parametrize("size", [(40, 12), (20, 6), (300, 80)])
async def test_every_screen_survives_odd_sizes(backend: FakeBackend, size: tuple[int, int]) -> None:
    async with running(backend, size=size) as pilot:
        for _, _, key in SCREENS:
            await pilot.press(key)
            await pilot.pause()
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert app_of(pilot).is_running


async def test_the_log_screen_shows_facts_and_what_the_native_side_said(
    backend: FakeBackend,
) -> None:
    async with running(backend, screen="log") as pilot:
        await until(pilot, lambda: "offloaded 65/65 layers" in screen_text(pilot))
        await until(pilot, lambda: "Memory: plan and reality" in screen_text(pilot))
        await pilot.press("ctrl+y")
        assert "llama_kv_cache" in pilot.app.clipboard
        await pilot.press("r", "escape")
        assert pilot.app.current_mode == "models"
