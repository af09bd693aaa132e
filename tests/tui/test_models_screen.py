"""Every key of the models screen."""

from __future__ import annotations

from textual.widgets import Input

from localspec.tui.backend.views import MachineView
from localspec.tui.widgets.model_table import ModelTable
from localspec.tui.widgets.welcome import Welcome
from tests.support.fake_backend import FakeBackend
from tests.tui.driving import activity, app_of, count, last, running, screen_text, until, write


async def test_a_pair_that_is_in_memory_is_not_deleted(backend: FakeBackend) -> None:
    async with running(backend, screen="chat", model="smollm2-135m") as pilot:
        await until(pilot, lambda: backend.loaded is not None)
        await pilot.press("f3")
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("home", "delete")
        await until(pilot, lambda: "is in memory" in activity(pilot))
        await pilot.press("y")
        await pilot.pause()
        assert count(backend, "remove") == 0


async def test_the_table_shows_every_pair_with_fit_disk_and_gain(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: "✗ −1.1 GiB" in screen_text(pilot))
        shown = screen_text(pilot)
        assert "qwen3-8b+0.6b" in shown
        assert "✓ 131 k ctx" in shown
        assert "1.93×" in shown
        assert "dflash *" in shown
        assert {"●", "◐", "○"} <= set(shown)


async def test_enter_runs_the_pair_under_the_cursor(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count)
        await pilot.press("down", "enter")
        await until(pilot, lambda: backend.loaded is not None)
        assert pilot.app.current_mode == "chat"
        assert last(backend, "load")[0] == "qwen3-8b+0.6b"


async def test_from_start_to_an_answer_takes_less_than_ten_keys(backend: FakeBackend) -> None:
    backend.state["welcomed"] = False
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        keys = ["enter", "h", "i", "enter"]
        await pilot.press(*keys)
        await until(pilot, lambda: count(backend, "answer") == 1)
        assert len(keys) < 10


async def test_p_pulls_what_is_missing_and_only_that(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("p")
        assert "is here already" in activity(pilot)
        await pilot.press("down", "down", "p")
        assert backend.downloads.calls == [("start", "qwen3-32b+0.6b")]
        await until(pilot, lambda: "↓ 1" in screen_text(pilot))


async def test_f_b_and_d_open_the_screen_with_the_pair(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("down", "f")
        await until(pilot, lambda: "Fit: qwen3-8b+0.6b" in screen_text(pilot))
        await pilot.press("escape", "b")
        await until(pilot, lambda: "Results: qwen3-8b+0.6b" in screen_text(pilot))
        await pilot.press("escape", "d")
        await until(pilot, lambda: pilot.app.current_mode == "downloads")


async def test_the_table_is_filtered_as_one_types(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count == 12)
        await write(pilot, "/coder ngram", then="enter")
        assert table.shown_ids == ["qwen3-coder-30b-a3b"]
        assert table.has_focus
        await pilot.press("escape")
        assert table.row_count == 12


async def test_a_filter_that_matches_nothing_breaks_nothing(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count == 12)
        await write(pilot, "/zzz", then="enter")
        assert "nothing matches" in screen_text(pilot)
        await pilot.press("enter", "p", "f", "b", "delete", "s")
        assert pilot.app.current_mode == "models"
        assert backend.downloads.calls == []


async def test_s_sorts_by_one_column_after_the_other(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count == 12)
        catalogue = table.shown_ids
        await pilot.press("s")
        assert table.shown_ids == sorted(catalogue, key=str.lower)
        await pilot.press("s", "s")
        assert table.shown_ids[0] == "smollm2-135m"
        assert table.shown_ids[-1] == "gpt-oss-20b"
        await pilot.press("s", "s", "s")
        assert table.shown_ids[0] == "qwen3-8b+0.6b"
        await pilot.press("s")
        assert table.shown_ids == catalogue


async def test_a_click_on_a_column_sorts_by_it_and_again_turns_it_round(
    backend: FakeBackend,
) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count == 12)
        await pilot.click(ModelTable, offset=(2, 0))
        first = table.shown_ids
        assert first == sorted(first, key=str.lower)
        await pilot.click(ModelTable, offset=(2, 0))
        assert table.shown_ids == first[::-1]


async def test_delete_asks_and_only_y_deletes(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("delete")
        assert "delete the files of smollm2-135m (98.0 MB)?" in activity(pilot)
        await pilot.press("escape", "y")
        assert count(backend, "remove") == 0
        await pilot.press("delete", "down", "y")
        assert count(backend, "remove") == 0
        await pilot.press("up", "delete", "y")
        await until(pilot, lambda: "5.5 GB freed" in activity(pilot))
        assert last(backend, "remove") == "smollm2-135m"


async def test_what_is_not_here_cannot_be_deleted(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await write(pilot, "/gpt-oss", then="enter")
        await pilot.press("delete", "y")
        assert "nothing of gpt-oss-20b" in activity(pilot)
        assert count(backend, "remove") == 0


async def test_details_tell_files_licence_report_and_what_else_there_is(
    backend: FakeBackend,
) -> None:
    async with running(backend, size=(200, 60)) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        await pilot.press("down", "down")
        await until(pilot, lambda: "+115 %" in screen_text(pilot))
        shown = screen_text(pilot)
        for words in ("Qwen3-0.6B Q4_K_M", "to pull", "Apache-2.0", "qwen3-32b+1.7b"):
            assert words in shown
        await write(pilot, "/dflash", then="enter")
        await until(pilot, lambda: "not built yet" in screen_text(pilot))


async def test_the_first_start_tells_what_was_found_and_how_to_mend_it(
    backend: FakeBackend,
) -> None:
    backend.state["welcomed"] = False
    backend.machine_view = MachineView(
        ram_total=32 * 2**30,
        ram_free=20 * 2**30,
        cpu="AMD Ryzen 9 7950X",
        build="llama.cpp b6900",
        advice="RTX 4090 is here, but this llama.cpp runs on the CPU only",
        command='CMAKE_ARGS="-DGGML_CUDA=on" pip install llama-cpp-python',
    )
    async with running(backend) as pilot:
        await until(pilot, lambda: "GGML_CUDA" in screen_text(pilot))
        assert "RTX 4090 is here" in screen_text(pilot)
        assert "CPU · 20.0 of 32 GiB free" in screen_text(pilot)
        await pilot.press("escape")
        assert not pilot.app.screen.query(Welcome)


async def test_a_finished_download_is_seen_in_the_table(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        await until(pilot, lambda: pilot.app.screen.query_one(ModelTable).row_count)
        backend.downloads.start("gpt-oss-20b")
        await until(pilot, lambda: "↓ 1" in screen_text(pilot))
        looked = []
        app_of(pilot).screen.action_reload = lambda: looked.append(1)  # type: ignore[attr-defined]
        backend.downloads.advance("gpt-oss-20b")
        await until(pilot, lambda: looked)


async def test_the_cursor_stays_on_its_pair_when_the_rows_change(backend: FakeBackend) -> None:
    async with running(backend) as pilot:
        table = pilot.app.screen.query_one(ModelTable)
        await until(pilot, lambda: table.row_count == 12)
        await pilot.press("down", "down", "f9")
        await pilot.pause()
        assert table.chosen is not None
        assert table.chosen.id == "qwen3-32b+0.6b"
        pilot.app.screen.query_one("#filter", Input).value = "32b"
        await pilot.pause()
        assert table.chosen.id == "qwen3-32b+0.6b"
