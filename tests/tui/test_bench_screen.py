"""Every key of the bench screen."""

from __future__ import annotations

from textual.widgets import Input

from tests.support.fake_backend import FakeBackend
from tests.tui.driving import PAIR, activity, count, last, running, screen_text, until


async def test_r_measures_what_is_chosen_and_results_grow(backend: FakeBackend) -> None:
    async with running(backend, screen="bench", model=PAIR) as pilot:
        await until(pilot, lambda: "■ draft model" in screen_text(pilot))
        await pilot.press("r")
        await until(pilot, lambda: "auto · edit" in activity(pilot))
        model, what = last(backend, "bench")
        assert model == PAIR
        assert what.methods == ("plain", "ngram", "model", "auto")
        assert what.workloads == ("chat", "code", "edit", "json")
        assert "1.94×" in screen_text(pilot)
        assert "1.0×" in screen_text(pilot)
        backend.benches[0].release.set()
        await until(pilot, lambda: "On this machine auto is 1.7× plain" in screen_text(pilot))
        assert activity(pilot) == "done"


async def test_escape_stops_and_keeps_what_was_measured(backend: FakeBackend) -> None:
    async with running(backend, screen="bench", model=PAIR) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: count(backend, "bench") == 1 and "auto" in activity(pilot))
        await pilot.press("r")
        assert count(backend, "bench") == 1
        await pilot.press("escape")
        await until(pilot, lambda: activity(pilot) == "stopped")
        assert backend.benches[0].cancelled
        assert "1.94×" in screen_text(pilot)
        await pilot.press("escape")
        assert pilot.app.current_mode == "models"


async def test_space_takes_a_method_or_workload_out(backend: FakeBackend) -> None:
    async with running(backend, screen="bench", model=PAIR) as pilot:
        await until(pilot, lambda: "■ draft model" in screen_text(pilot))
        await pilot.press("space")
        await until(pilot, lambda: "□ n-gram" in screen_text(pilot))
        await pilot.press("tab", "space", "down", "space", "r")
        await until(pilot, lambda: count(backend, "bench") == 1)
        what = last(backend, "bench")[1]
        assert what.methods == ("plain", "model", "auto")
        assert what.workloads == ("edit", "json")


async def test_numbers_are_checked_before_anything_runs(backend: FakeBackend) -> None:
    async with running(backend, screen="bench", model=PAIR) as pilot:
        pilot.app.screen.query_one("#bench-max_tokens", Input).value = "1"
        await pilot.press("r")
        assert "tokens of each answer" in activity(pilot)
        assert count(backend, "bench") == 0


async def test_older_results_of_the_pair_are_shown(backend: FakeBackend) -> None:
    async with running(backend, screen="bench", model=PAIR) as pilot:
        await until(pilot, lambda: "Measured before" in screen_text(pilot))
        assert "1.61×" in screen_text(pilot)


async def test_without_a_pair_it_says_how_to_come_back_with_one(backend: FakeBackend) -> None:
    async with running(backend, screen="bench") as pilot:
        await pilot.press("r")
        assert "no pair is chosen" in activity(pilot)
        await pilot.press("f")
        assert pilot.app.current_mode == "bench"


async def test_at_80_columns_c_brings_the_choice_back_over_the_results(
    backend: FakeBackend,
) -> None:
    async with running(backend, screen="bench", model=PAIR, size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "1.94×" in screen_text(pilot))
        assert "What to measure" not in screen_text(pilot)
        backend.benches[0].release.set()
        await until(pilot, lambda: activity(pilot) == "done")
        await pilot.press("c")
        await until(pilot, lambda: "What to measure" in screen_text(pilot))
