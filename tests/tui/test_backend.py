"""The real backend's parts, without a screen and, but for one test, without llama.cpp."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.errors import DoesNotFit, DownloadError, UsageError
from localspec.events import Answer, DrafterCounts, RoundDone, Speculation, Timings
from localspec.hub.control import PullControl
from localspec.hub.resolve import LocalFile, Missing, ResolvedPair
from localspec.paths import Paths
from localspec.tui.backend.download_desk import DownloadDesk
from localspec.tui.backend.engine_room import EngineRoom, chat_request, engine_settings
from localspec.tui.backend.fitting import applied, brief_of
from localspec.tui.backend.guess import guessed_size
from localspec.tui.backend.library import Library
from localspec.tui.backend.machine import learned_ngrams
from localspec.tui.backend.views import ChatSettings, FitChoice
from localspec.tui.figures import Meter
from localspec.tui.state import UiState
from localspec.tui.widgets.bars import bar, sparkline, stacked
from tests.support.fake_backend import fit_report
from tests.support.tiny_gguf import write_tiny


def test_the_lookup_caches_are_counted_by_the_notes_beside_them(tmp_path: Path) -> None:
    assert learned_ngrams(tmp_path / "nothing") == 0
    for name, text in (
        ("a.bin.json", '{"vocabulary": "x", "ngrams": 40000}'),
        ("b.bin.json", '{"vocabulary": "y", "ngrams": 1300}'),
        ("c.bin.json", "[]"),
        ("d.bin.json", "not json"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert learned_ngrams(tmp_path) == 41_300


def test_the_backend_and_chats_load_without_textual_and_llama_cpp() -> None:
    code = (
        "import localspec.tui.backend.live, localspec.tui.figures, localspec.tui.state, "
        "localspec.tui.chat_session, localspec.chats.store, sys; "
        "print(sorted({'textual', 'llama_cpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_have_every_pair_of_the_catalogue_with_a_size_or_a_guess(tmp_path: Path) -> None:
    rows = Library(Paths(tmp_path / "c", tmp_path / "d", tmp_path / "e")).rows()
    assert len(rows) > 25
    assert rows[0].id == "smollm2-135m"
    assert rows[0].here == "none"
    by_id = {row.id: row for row in rows}
    likely = by_id["qwen3-32b+0.6b"].likely_size
    assert likely is not None
    assert 17e9 < likely < 23e9
    assert "qwen3-32b+0.6b" not in by_id["qwen3-32b+0.6b"].drafts


def test_a_pair_with_another_quantisation_keeps_its_draft(tmp_path: Path) -> None:
    library = Library(Paths(tmp_path / "c", tmp_path / "d", tmp_path / "e"))
    own, other = library.resolve("qwen3-32b+0.6b"), library.resolve("qwen3-32b+0.6b:Q4_K_S")
    assert other.id == "qwen3-32b+0.6b:Q4_K_S"
    assert other.draft == own.draft
    assert str(other.target.source) == "bartowski/Qwen_Qwen3-32B-GGUF:Q4_K_S"
    with pytest.raises(UsageError, match="one quantisation only"):
        library.resolve("smollm2-135m:Q8_0")


@pytest.mark.parametrize(
    ("name", "true_size"),
    [
        ("Qwen_Qwen3-32B-Q4_K_M", 19.76e9),
        ("Qwen3-0.6B.Q4_K_M", 0.40e9),
        ("SmolLM2-135M-Instruct.Q8_0", 0.145e9),
        ("Llama-3.1-8B-Instruct-F16", 16.07e9),
        ("Qwen3-30B-A3B-Q4_K_M", 18.56e9),
    ],
)
def test_a_name_tells_the_size_within_a_quarter(name: str, true_size: float) -> None:
    found = guessed_size(name)
    assert found is not None
    assert 0.75 < found / true_size < 1.25


def test_a_name_without_a_size_is_not_guessed() -> None:
    assert guessed_size("mmproj-model-f16") is None
    assert guessed_size("draft-v2") is None
    assert guessed_size("Qwen3.6-27B-DFlash-Q4_K_M") is None


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ("--ctx 4096", "n_ctx", 4096),
        ("--kv-type q8_0", "kv_type", "q8_0"),
        ("--kv-type q8_0 --draft-kv-type q8_0", "kv_type", "q8_0"),
        ("--gpu-layers 12", "gpu_layers", 12),
        ("--draft-gpu-layers 0", "draft_gpu_layers", 0),
        ("--ubatch 128", "n_ubatch", 128),
        ("--draft-max 2", "draft_max", 2),
        ("--draft ngram", "use_draft", False),
    ],
)
def test_suggestions_in_the_words_of_the_command_line_are_applied(
    change: str, field: str, value: object
) -> None:
    choice = applied(change, FitChoice())
    assert choice is not None
    assert getattr(choice, field) == value


def test_a_suggestion_that_cannot_be_applied_here_is_told_as_such() -> None:
    assert applied("owner/repo:Q3_K_M", FitChoice()) is None


def test_the_verdict_names_the_context_or_what_is_missing() -> None:
    assert brief_of(fit_report(FitChoice())).text == "✓ 11 k ctx"
    assert brief_of(fit_report(FitChoice(kv_type="q8_0"))).verdict == "fits"


async def test_what_does_not_fit_is_refused_before_an_engine_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localspec.engine.client import EngineClient

    async def started(*arguments: Any) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(EngineClient, "start", started)
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    file = LocalFile(path, path.stat().st_size, "path", _source(tmp_path), "tiny")
    resolved = ResolvedPair("tiny", "ngram", file, None, tmp_path)
    room = EngineRoom(Paths(tmp_path, tmp_path, tmp_path))
    with pytest.raises(DoesNotFit, match="too little"):
        await room.load(resolved, FitChoice(n_ctx=10**9), "ngram", lambda event: None)
    assert room.loaded is None


def test_settings_take_what_the_choice_says(tmp_path: Path) -> None:
    file = LocalFile(tmp_path / "a.gguf", 1, "path", _source(tmp_path), "a")
    resolved = ResolvedPair("pair", "draft", file, file, tmp_path, draft_max=8, p_min=0.7)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    choice = FitChoice(n_ctx=4096, kv_type="q8_0", gpu_layers=5, n_ubatch=128)
    found = engine_settings(resolved, choice, paths)
    assert (found.n_ctx, found.target.kv_type, found.target.gpu_layers) == (4096, "q8_0", 5)
    assert (found.draft_max, found.p_min, found.n_ubatch) == (8, 0.7, 128)
    alone = engine_settings(resolved, FitChoice(use_draft=False), paths)
    assert alone.draft is None
    missing = Missing(_source(tmp_path), "a", 1, None)
    with pytest.raises(UsageError, match="not on this machine"):
        engine_settings(ResolvedPair("p", "ngram", missing, None, tmp_path), choice, paths)


def test_a_wrong_sampling_value_is_told_before_the_engine_is_asked() -> None:
    with pytest.raises(UsageError, match="top-p"):
        chat_request((), ChatSettings(top_p=2.0), "auto")


class TestDownloadDesk:
    """With a pull that the tests hold in their hands."""

    def test_it_goes_from_planning_to_done(self, tmp_path: Path) -> None:
        desk = _Desk(tmp_path)
        desk.start("a")
        desk.go.set()
        desk.wait("done")
        assert desk.items()[0].total == 100

    def test_what_was_unusual_is_told_and_stays_to_be_read(self, tmp_path: Path) -> None:
        desk = _Desk(tmp_path)
        desk.note = "what had arrived was damaged and is fetched again"
        desk.start("a")
        desk.go.set()
        desk.wait("done")
        assert desk.items()[0].message == desk.note

    def test_pausing_and_resuming_reach_the_pull(self, tmp_path: Path) -> None:
        desk = _Desk(tmp_path)
        desk.start("a")
        desk.wait("running")
        desk.pause("a")
        assert desk.items()[0].state == "paused"
        assert desk.control is not None
        assert desk.control.paused
        desk.resume("a")
        assert not desk.control.paused
        desk.go.set()
        desk.wait("done")

    def test_a_failure_is_told_with_its_way_out_and_can_be_tried_again(
        self, tmp_path: Path
    ) -> None:
        desk = _Desk(tmp_path, error=DownloadError("the Hub does not answer", hint="try later"))
        desk.start("a")
        desk.go.set()
        desk.wait("failed")
        assert (desk.items()[0].message, desk.items()[0].hint) == (
            "the Hub does not answer",
            "try later",
        )
        desk.error = None
        desk.start("a")
        desk.wait("done")

    def test_cancelling_ends_it_and_it_can_be_forgotten(self, tmp_path: Path) -> None:
        desk = _Desk(tmp_path)
        desk.start("a")
        desk.wait("running")
        control = desk.control
        desk.cancel("a")
        assert control is not None
        assert control.cancelled
        assert desk.items()[0].state == "cancelled"
        desk.forget("a")
        assert desk.items() == ()

    def test_what_ran_goes_on_after_a_restart_and_what_was_paused_waits(
        self, tmp_path: Path
    ) -> None:
        first = _Desk(tmp_path)
        first.start("runs")
        first.start("waits")
        first.wait("running", "runs")
        first.wait("running", "waits")
        first.pause("waits")
        first.close()
        second = _Desk(tmp_path)
        second.go.set()
        second.restore()
        second.wait("done", "runs")
        assert {item.id: item.state for item in second.items()}["waits"] == "paused"
        second.resume("waits")
        second.wait("done", "waits")
        third = _Desk(tmp_path)
        third.restore()
        assert third.items() == ()

    def test_a_damaged_list_is_an_empty_one(self, tmp_path: Path) -> None:
        (tmp_path / "downloads.json").write_text('[["a"], 3, {"x": 1}]', encoding="utf-8")
        desk = _Desk(tmp_path)
        desk.restore()
        assert desk.items() == ()


class _Desk(DownloadDesk):
    """A desk whose pulls wait for `go` and then succeed, or fail with `error`."""

    def __init__(self, folder: Path, error: DownloadError | None = None) -> None:
        super().__init__(folder / "downloads.json", lambda model: _pair(model, folder))
        self.go = threading.Event()
        self.error = error
        self.note = ""
        self.control: PullControl | None = None

    def _fetch(
        self,
        resolved: ResolvedPair,
        control: PullControl,
        told: Callable[..., None],
        noted: Callable[[str], None],
    ) -> None:
        from localspec.events import DownloadProgress

        self.control = control
        told(DownloadProgress("target", "a", 40, 100, 10.0, "downloading"))
        while not self.go.wait(0.01):
            control.check()
        if self.error is not None:
            raise self.error
        if self.note:
            noted(self.note)
        told(DownloadProgress("target", "a", 100, 100, 0.0, "done"))

    def wait(self, state: str, model: str = "") -> None:
        for _ in range(1000):
            items = {item.id: item.state for item in self.items()}
            if items.get(model, "") == state or (not model and state in items.values()):
                return
            threading.Event().wait(0.01)
        raise AssertionError(f"never {state}: {self.items()}")


def _pair(model: str, folder: Path) -> ResolvedPair:
    return ResolvedPair(model, "ngram", Missing(_source(folder), "a", 100, None), None, folder)


def _source(folder: Path) -> Any:
    from localspec.catalog.entries import PathSource

    return PathSource(folder / "a.gguf")


def test_the_meter_s_figures_are_those_of_the_events() -> None:
    meter = Meter()
    meter.begin()
    for second in range(1, 5):
        meter.update(RoundDone(second * 10 + 1, second * 4, second * 9, second * 6, second, 100))
    assert meter.now == pytest.approx(10.0)
    assert meter.average == pytest.approx(10.0)
    assert meter.acceptance == pytest.approx(6 / 9)
    assert meter.tokens_per_round == pytest.approx(2.5)
    spec = Speculation(
        "auto",
        16,
        36,
        24,
        (12, 8),
        (16, 12),
        by_drafter={"ngram": DrafterCounts(4, 9, 6), "model": DrafterCounts(8, 27, 18)},
    )
    answer = Answer(
        "m", "x", "", tuple(range(41)), "stop", 5, 0, Timings(decode_s=4.0, decode_tokens=40), spec
    )
    meter.plain_rate = 5.0
    meter.finish(answer, "auto")
    assert meter.gain == pytest.approx(2.0)
    assert meter.positions == ((12, 16), (8, 12))
    assert meter.target_tokens == 17
    assert meter.by_method["auto"].rate == pytest.approx(10.0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    )
)
def test_no_value_in_a_state_file_stops_a_start(value: Any) -> None:
    names = ("model", "screen", "theme", "method", "welcomed", "history", "settings", "tint")
    state = UiState.from_dict(dict.fromkeys(names, value))
    assert UiState.from_dict(state.as_dict()) == state
    inner = dict.fromkeys(("temp", "top_k", "seed", "system", "x"), value)
    UiState.from_dict({"settings": inner})


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8), st.integers(8, 200))
def test_stacked_parts_never_take_more_than_the_bar(parts: list[int], width: int) -> None:
    cells = stacked(parts, sum(parts), width)
    assert sum(cells) <= width
    assert all((count > 0) <= (part > 0) for count, part in zip(cells, parts, strict=True))


@given(st.floats(-1, 2), st.integers(1, 80))
def test_a_bar_is_as_wide_as_asked(share: float, width: int) -> None:
    assert len(bar(share, width)) == width


def test_a_sparkline_shows_the_last_values_from_zero() -> None:
    assert sparkline([0, 4, 8], 10) == "▁▅█"
    assert len(sparkline(range(100), 12)) == 12
    assert sparkline([], 5) == ""
