"""The real backend: catalogue, hub, fit, engine, bench and files of this user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from localspec.chats.conversation import Turn
from localspec.chats.store import ChatStore, write_whole
from localspec.errors import LocalspecError
from localspec.events import LoadProgress, Notice
from localspec.paths import Paths
from localspec.tui.backend.benching import BenchRunView, bench_history, workload_titles
from localspec.tui.backend.contract import AnswerEvent
from localspec.tui.backend.download_desk import DownloadDesk
from localspec.tui.backend.engine_room import EngineRoom
from localspec.tui.backend.fitting import Fitting
from localspec.tui.backend.library import Library
from localspec.tui.backend.machine import (
    ask_capabilities,
    doctor_groups,
    learned_ngrams,
    machine_view,
    memory_groups,
)
from localspec.tui.backend.views import (
    BenchChoice,
    BenchEntry,
    ChatSettings,
    FactGroup,
    FitBrief,
    FitChoice,
    FitReport,
    LoadedView,
    MachineView,
    ModelRow,
)

if TYPE_CHECKING:
    from localspec.llama.capabilities import Capabilities, Device


_CLOSE_S = 2.0


class LiveBackend:
    """Everything under the folders of `paths`; fulfils `contract.Backend`."""

    def __init__(self, paths: Paths) -> None:
        _start_resource_tracker()
        self._paths = paths
        self._library = Library(paths)
        self._engine = EngineRoom(paths)
        self._fitting = Fitting(paths, self._library, self._devices)
        self._capabilities: Capabilities | None = None
        self._was_asked = False
        self._asking = threading.Lock()
        self.downloads = DownloadDesk(paths.data / "downloads.json", self._library.resolve)
        self.chats = ChatStore(paths.chats)
        self.downloads.restore()

    def machine(self) -> MachineView:
        return machine_view(self._asked())

    def _asked(self) -> Capabilities | None:
        """What llama.cpp says about itself; asked once, by whoever comes first."""
        with self._asking:
            if not self._was_asked:
                self._capabilities = ask_capabilities()
                self._was_asked = True
            return self._capabilities

    def _devices(self) -> tuple[Device, ...]:
        found = self._asked()
        return found.devices if found is not None else ()

    def learned_ngrams(self) -> int:
        return learned_ngrams(self._paths.lookup)

    def models(self) -> list[ModelRow]:
        return self._library.rows()

    def fit_brief(self, model: str) -> FitBrief:
        return self._fitting.brief(model)

    def fit(self, model: str, choice: FitChoice) -> FitReport:
        return self._fitting.report(model, choice)

    def probe(self, model: str, choice: FitChoice) -> FitReport:
        return self._fitting.report(model, choice, probe=True)

    def find_quants(self, model: str) -> bool:
        return self._fitting.find_quants(model)

    def missing(self, model: str) -> bool:
        return bool(self._library.resolve(model).missing)

    def has_draft(self, model: str) -> bool:
        try:
            return self._library.resolve(model).draft is not None
        except LocalspecError:
            return False

    def remove(self, model: str) -> str:
        return self._library.remove(model)

    @property
    def loaded(self) -> LoadedView | None:
        return self._engine.loaded

    async def load(
        self,
        model: str,
        choice: FitChoice,
        method: str,
        on_event: Callable[[LoadProgress | Notice], None],
    ) -> LoadedView:
        resolved = await asyncio.to_thread(self._library.resolve, model)
        return await self._engine.load(resolved, choice, method, on_event)

    def answer(
        self, turns: tuple[Turn, ...], settings: ChatSettings, method: str
    ) -> AsyncIterator[AnswerEvent]:
        return self._engine.answer(turns, settings, method)

    async def stop(self) -> None:
        await self._engine.stop()

    async def plain_rate(self) -> float | None:
        return await self._engine.plain_rate()

    async def unload(self) -> None:
        await self._engine.unload()

    def bench(self, model: str, choice: FitChoice, what: BenchChoice) -> BenchRunView:
        return BenchRunView(self, self._engine, self._paths, model, choice, what)

    def workloads(self) -> tuple[tuple[str, str], ...]:
        return workload_titles()

    def bench_history(self, model: str) -> tuple[BenchEntry, ...]:
        return bench_history(model, self._paths)

    def doctor(self) -> tuple[FactGroup, ...]:
        plan = None
        if self._engine.loaded is not None:
            plan = self._fitting.report(self._engine.loaded.id, self._engine.choice, quick=True)
        groups = doctor_groups(self._asked(), self.machine())
        return (*groups, *memory_groups(plan, self._engine.pid))

    def log(self) -> list[str]:
        return self._engine.log()

    def read_state(self) -> dict[str, Any]:
        try:
            data = json.loads(self._state_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # No state, or a damaged one: the program starts as if for the first time.
            return {}
        return data if isinstance(data, dict) else {}

    def write_state(self, state: dict[str, Any]) -> None:
        with contextlib.suppress(LocalspecError):
            write_whole(self._state_path, json.dumps(state, indent=1, ensure_ascii=False) + "\n")

    async def close(self) -> None:
        self.downloads.close()
        # An engine that does not end in time is killed with the program: it is a daemon.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._engine.unload(), _CLOSE_S)

    @property
    def _state_path(self) -> Any:
        return self._paths.data / "ui.json"


def _start_resource_tracker() -> None:
    """Before the UI takes the standard streams: multiprocessing's helper process inherits the
    descriptor of stderr, and the stream that Textual puts in its place has none."""
    if sys.platform == "win32":
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()
