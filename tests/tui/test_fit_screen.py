"""Every key of the fit screen."""

from __future__ import annotations

from localspec.errors import EngineError
from localspec.tui.backend.views import FitChoice, FitDevice, FitPart
from localspec.tui.theme import DARK
from localspec.tui.widgets.fit_controls import FitControls
from localspec.tui.widgets.memory_bar import bar_lines
from localspec.units import GIB
from tests.support.fake_backend import FakeBackend
from tests.tui.driving import PAIR, activity, count, last, running, screen_text, until


async def test_the_bar_and_every_control_are_shown(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        controls = pilot.app.screen.query_one(FitControls)
        assert controls.names == [
            "context",
            "KV type",
            "GPU layers",
            "draft",
            "draft KV type",
            "draft length",
        ]
        assert "largest that fits: 11,520" in screen_text(pilot)
        assert "target weights 18.4 GiB" in screen_text(pilot)


async def test_arrow_keys_change_what_is_asked_and_the_answer_follows(
    backend: FakeBackend,
) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        await pilot.press("right")
        await until(pilot, lambda: last(backend, "fit").n_ctx == 11520)
        await pilot.press("right")
        await until(pilot, lambda: "too much" in screen_text(pilot))
        assert last(backend, "fit").n_ctx == 16384
        await pilot.press("down", "right")
        await until(pilot, lambda: last(backend, "fit").kv_type == "q8_0")
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        await pilot.press("down", "left")
        await until(pilot, lambda: last(backend, "fit").gpu_layers == 64)
        await pilot.press("down", "left")
        await until(pilot, lambda: not last(backend, "fit").use_draft)
        await pilot.press("down", "left", "left")
        await until(pilot, lambda: last(backend, "fit").draft_max == 14)


async def test_the_estimate_is_shown_at_once_and_the_probe_takes_its_place(
    backend: FakeBackend,
) -> None:
    async with running(backend, screen="fit", model=PAIR, size=(120, 40)) as pilot:
        await until(pilot, lambda: "llama.cpp is being asked" in screen_text(pilot))
        assert "estimated from the file's header" in screen_text(pilot)
        assert "headroom" in screen_text(pilot)
        await until(pilot, lambda: "from llama.cpp itself" in screen_text(pilot))
        assert "being asked" not in screen_text(pilot)
        await pilot.press("right")
        await until(pilot, lambda: count(backend, "probe") == 2)
        assert last(backend, "probe").n_ctx == 11520


async def test_llama_cpp_is_asked_when_the_keys_have_come_to_rest(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        for _ in range(6):
            await pilot.press("right", "left")
        await pilot.press("right")
        await until(pilot, lambda: "from llama.cpp itself" in screen_text(pilot))
        assert count(backend, "probe") < count(backend, "fit")
        assert last(backend, "probe").n_ctx == 11520


async def test_a_probe_that_fails_leaves_the_estimate_and_says_why(backend: FakeBackend) -> None:
    backend.probe_error = EngineError("llama.cpp cannot plan this")
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "llama.cpp cannot plan this" in screen_text(pilot))
        assert "estimated from the file's header" in screen_text(pilot)
        assert "headroom" in screen_text(pilot)


async def test_the_draft_has_a_cache_type_of_its_own(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "without it: 0.7 GiB more" in screen_text(pilot))
        await pilot.press("down", "down", "down", "down", "right")
        await until(pilot, lambda: last(backend, "fit").draft_kv_type == "q8_0")
        assert last(backend, "fit").kv_type == "f16"
        await pilot.press("l")
        await until(pilot, lambda: backend.loaded is not None)
        assert last(backend, "load")[1].draft_kv_type == "q8_0"


async def test_launch_takes_exactly_what_is_shown(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        await pilot.press("right", "down", "right")
        await until(pilot, lambda: last(backend, "fit").kv_type == "q8_0")
        await until(pilot, lambda: "q8_0" in screen_text(pilot))
        await pilot.pause()
        await pilot.press("l")
        await until(pilot, lambda: backend.loaded is not None)
        model, choice = last(backend, "load")
        assert model == PAIR
        assert (choice.n_ctx, choice.kv_type, choice.use_draft) == (11520, "q8_0", True)


async def test_what_does_not_fit_is_not_launched(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        await pilot.press("right", "right")
        await until(pilot, lambda: "too much" in screen_text(pilot))
        await pilot.press("l")
        assert "does not fit" in activity(pilot)
        assert count(backend, "load") == 0


async def test_a_digit_applies_its_suggestion_and_r_goes_back(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "To free memory" in screen_text(pilot))
        await pilot.press("1")
        await until(pilot, lambda: last(backend, "fit").kv_type == "q8_0")
        await pilot.press("9")
        await until(pilot, lambda: "draft ngram" in screen_text(pilot))
        await pilot.press("r")
        await until(pilot, lambda: last(backend, "fit") == FitChoice())


async def test_another_quantisation_is_launched_under_its_own_name(backend: FakeBackend) -> None:
    backend.quants_online = True
    async with running(backend, screen="fit", model=PAIR) as pilot:
        controls = pilot.app.screen.query_one(FitControls)
        await until(pilot, lambda: "quantisation" in controls.names)
        await pilot.press("up", "up", "right", "right")
        await until(pilot, lambda: last(backend, "fit").quant == "Q4_K_S")
        await until(pilot, lambda: "to be pulled" in screen_text(pilot))
        await pilot.press("l")
        await until(pilot, lambda: backend.loaded is not None)
        assert last(backend, "load")[0] == f"{PAIR}:Q4_K_S"


async def test_the_mouse_turns_a_control_too(backend: FakeBackend) -> None:
    async with running(backend, screen="fit", model=PAIR) as pilot:
        await until(pilot, lambda: "headroom" in screen_text(pilot))
        await pilot.click(FitControls, offset=(39, 1))
        await until(pilot, lambda: last(backend, "fit").kv_type == "q8_0")
        await pilot.click(FitControls, offset=(18, 1))
        await until(pilot, lambda: last(backend, "fit").kv_type == "f16")


async def test_without_a_pair_it_says_how_to_come_back_with_one(backend: FakeBackend) -> None:
    async with running(backend, screen="fit") as pilot:
        assert "Choose a pair first" in screen_text(pilot)
        await pilot.press("l", "r", "1", "b", "right")
        assert pilot.app.current_mode == "fit"
        await pilot.press("escape")
        assert pilot.app.current_mode == "models"


def test_the_bar_never_exceeds_its_width_and_tells_what_is_missing() -> None:
    parts = (
        FitPart("target", "weights", 30 * GIB),
        FitPart("draft", "weights", 1),
        FitPart("target", "kv", GIB),
        FitPart("target", "compute", 1),
    )
    lines = bar_lines(FitDevice("x", 24 * GIB, 22 * GIB, parts, 1), DARK, 60)
    assert lines[0].cell_len == 60
    assert {"█", "▓", "▒", "░"} <= set(lines[0].plain)
    assert "9.0 GiB too much" in lines[1].plain
