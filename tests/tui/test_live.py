"""The screens on the real backend and a real model: answers, a killed engine, a benchmark, fit."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.paths import Paths
from localspec.tui.app import LocalspecApp
from localspec.tui.backend.live import LiveBackend
from localspec.tui.backend.views import BenchChoice, FitChoice
from tests.support.models import smollm2
from tests.tui.driving import AppPilot, activity, screen_text, transcript_text, until, write

pytestmark = pytest.mark.engine
PATIENT = 3000
"""Looks, a fiftieth of a second apart: a busy machine decodes slowly."""


@asynccontextmanager
async def live(folder: Path, screen: str) -> AsyncIterator[tuple[AppPilot, LiveBackend]]:
    backend = LiveBackend(Paths(folder / "config", folder / "data", folder / "cache"))
    app = LocalspecApp(backend, screen=screen, model=str(smollm2()))
    app.session.settings = replace(app.session.settings, temp=0.0, max_tokens=48)
    async with app.run_test(size=(120, 40)) as pilot:
        yield pilot, backend
        await backend.close()


async def test_a_killed_engine_is_told_and_the_next_answer_comes(tmp_path: Path) -> None:
    async with live(tmp_path, "chat") as (pilot, backend):
        await until(pilot, lambda: backend.loaded is not None, tries=PATIENT)
        app = pilot.app
        assert isinstance(app, LocalspecApp)
        app.session.settings = replace(app.session.settings, max_tokens=4000)
        await write(pilot, "Tell a very long story.", then="enter")
        await until(pilot, lambda: app.session.meter.tokens > 8, tries=PATIENT)
        pid = backend._engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(pilot, lambda: "ended unexpectedly" in transcript_text(pilot), tries=PATIENT)
        said = app.session.turns[-1].content
        assert said
        app.session.settings = replace(app.session.settings, max_tokens=24)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "cut at the limit" in transcript_text(pilot), tries=PATIENT)
        assert "ended unexpectedly" not in transcript_text(pilot)
        assert said.startswith(app.session.turns[-1].content[:10])


async def test_fit_and_log_tell_of_the_model_that_is_loaded(tmp_path: Path) -> None:
    async with live(tmp_path, "chat") as (pilot, backend):
        await until(pilot, lambda: backend.loaded is not None, tries=PATIENT)
        await pilot.press("f5")
        await until(pilot, lambda: "headroom" in screen_text(pilot), tries=PATIENT)
        assert "largest that fits: 8,192" in screen_text(pilot)
        await until(pilot, lambda: "from llama.cpp itself" in screen_text(pilot), tries=PATIENT)
        await pilot.press("f8")
        await until(pilot, lambda: "plan and reality" in screen_text(pilot), tries=PATIENT)
        await until(pilot, lambda: "compute buffer size" in screen_text(pilot), tries=PATIENT)
        assert not activity(pilot)


async def test_a_benchmark_measures_remembers_and_can_be_stopped(tmp_path: Path) -> None:
    backend = LiveBackend(Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache"))
    model = str(smollm2())
    what = BenchChoice(("plain", "ngram"), ("chat",), prompts=1, max_tokens=20)
    seen: list[Any] = []
    view = await backend.bench(model, FitChoice(n_ctx=2048), what).run(seen.append)
    assert view.finished
    assert (view.done, view.total) == (2, 2)
    assert [row[0] for row in view.rows] == ["plain", "ngram"]
    assert "On this machine ngram" in view.sentence
    assert backend.bench_history(model)[0].speedups[0][0] == "plain"
    bench = backend.bench(model, FitChoice(n_ctx=2048), what)
    stopped = await bench.run(lambda view: bench.cancel() if view.total else None)
    assert stopped.now == "stopped"
    assert stopped.done < stopped.total
    assert len(backend.bench_history(model)) == 1
    await backend.close()
