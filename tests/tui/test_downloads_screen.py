"""Every key of the downloads screen."""

from __future__ import annotations

from localspec.tui.widgets.download_card import DownloadCard
from tests.support.fake_backend import FakeBackend, some_downloads
from tests.tui.driving import activity, running, screen_text, until


async def test_every_state_is_told_in_words(backend: FakeBackend) -> None:
    _put(backend)
    async with running(backend, screen="downloads") as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, DownloadCard))
        shown = screen_text(pilot)
        for words in ("downloading", "❚❚ paused", "✗ failed", "✓ here", "the Hub does not answer"):
            assert words in shown
        assert "8.3 GB of 19.5 GB" in shown
        assert "left" in shown
        assert "verifying" in shown
        assert "↓ 2" in shown


async def test_space_pauses_and_resumes(backend: FakeBackend) -> None:
    _put(backend)
    async with running(backend, screen="downloads") as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, DownloadCard))
        await pilot.press("space", "space")
        assert backend.downloads.calls == [
            ("pause", "qwen3-32b+0.6b"),
            ("resume", "qwen3-32b+0.6b"),
        ]


async def test_arrows_choose_and_x_cancels_r_retries_delete_forgets(backend: FakeBackend) -> None:
    _put(backend)
    async with running(backend, screen="downloads") as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, DownloadCard))
        await pilot.press("r", "delete")
        assert "x cancels it first" in activity(pilot)
        assert backend.downloads.calls == []
        await pilot.press("down", "x", "r")
        assert backend.downloads.calls == [("cancel", "qwen3-8b+0.6b"), ("start", "qwen3-8b+0.6b")]
        await pilot.press("down", "down", "delete")
        assert backend.downloads.calls[-1] == ("forget", "gemma-3-27b+1b")
        await until(pilot, lambda: "gemma-3-27b+1b" not in screen_text(pilot))


async def test_enter_runs_what_has_arrived(backend: FakeBackend) -> None:
    _put(backend)
    async with running(backend, screen="downloads") as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, DownloadCard))
        await pilot.press("up", "enter")
        await until(pilot, lambda: backend.loaded is not None)
        assert pilot.app.current_mode == "chat"


async def test_an_empty_list_says_where_to_begin(backend: FakeBackend) -> None:
    async with running(backend, screen="downloads") as pilot:
        assert "p pulls a pair" in screen_text(pilot)
        await pilot.press("space", "x", "r", "delete", "enter", "escape")
        assert pilot.app.current_mode == "models"


async def test_a_download_that_begins_elsewhere_appears_and_moves(backend: FakeBackend) -> None:
    async with running(backend, screen="downloads") as pilot:
        backend.downloads.start("gpt-oss-20b")
        await until(pilot, lambda: "gpt-oss-20b" in screen_text(pilot))
        backend.downloads.advance("gpt-oss-20b")
        await until(pilot, lambda: "✓ here" in screen_text(pilot))


def _put(backend: FakeBackend) -> None:
    for item in some_downloads():
        backend.downloads.put(item)
