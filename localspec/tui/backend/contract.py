"""The face of the core as screens see it. The real one is `live.py`; tests have a fake.

Methods that are not `async` and may take longer than a few milliseconds say so; screens call those
in a thread. Everything raises LocalspecError and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from localspec.chats.conversation import Turn
from localspec.chats.store import ChatStore
from localspec.events import Answer, LoadProgress, Notice, PromptProgress, RoundDone, TextDelta
from localspec.tui.backend.views import (
    BenchChoice,
    BenchEntry,
    BenchView,
    ChatSettings,
    Download,
    FactGroup,
    FitBrief,
    FitChoice,
    FitReport,
    LoadedView,
    MachineView,
    ModelRow,
)

AnswerEvent = PromptProgress | TextDelta | RoundDone | Notice | Answer


class Downloads(Protocol):
    """Pairs on their way; they go on in threads of their own and survive a restart."""

    def items(self) -> tuple[Download, ...]:
        """The newest last. Cheap: screens ask several times a second."""
        ...

    def start(self, model: str) -> None:
        """Fetch a pair, or go on with it."""
        ...

    def pause(self, model: str) -> None: ...

    def resume(self, model: str) -> None: ...

    def cancel(self, model: str) -> None: ...

    def forget(self, model: str) -> None:
        """Take one that has ended off the list."""
        ...


class Bench(Protocol):
    """One benchmark; runs once."""

    async def run(self, on_change: Callable[[BenchView], None]) -> BenchView: ...

    def cancel(self) -> None: ...


class Backend(Protocol):
    @property
    def downloads(self) -> Downloads: ...

    @property
    def chats(self) -> ChatStore: ...

    def machine(self) -> MachineView:
        """Takes up to seconds: starts a process."""
        ...

    def learned_ngrams(self) -> int:
        """N-grams in the lookup caches that past sessions filled. Takes a moment: reads files."""
        ...

    def models(self) -> list[ModelRow]:
        """All rows, without `fit`. Takes a while: looks at many files."""
        ...

    def fit_brief(self, model: str) -> FitBrief:
        """Takes a while: reads headers."""
        ...

    def fit(self, model: str, choice: FitChoice) -> FitReport:
        """Takes a while the first time for a model."""
        ...

    def probe(self, model: str, choice: FitChoice) -> FitReport:
        """The same by llama.cpp's own figures. Takes seconds: starts a process.

        Raises EngineError where llama.cpp cannot tell.
        """
        ...

    def find_quants(self, model: str) -> bool:
        """Ask the Hub for other quantisations of the target; whether there are any.

        `fit` names them from then on. Takes seconds, and longer without a connection.
        """
        ...

    def missing(self, model: str) -> bool:
        """Whether a file of the pair has to be pulled first. Takes a moment: looks at files."""
        ...

    def has_draft(self, model: str) -> bool:
        """Whether the pair has a draft model. Takes a moment; False for unknown names."""
        ...

    def remove(self, model: str) -> str:
        """Delete the files of a pair that no other needs; what happened, in a sentence."""
        ...

    @property
    def loaded(self) -> LoadedView | None: ...

    async def load(
        self,
        model: str,
        choice: FitChoice,
        method: str,
        on_event: Callable[[LoadProgress | Notice], None],
    ) -> LoadedView:
        """Bring a pair whose files are here into memory; what was there before leaves it.

        Cancelling the task that awaits this stops the loading.
        """
        ...

    def answer(
        self, turns: tuple[Turn, ...], settings: ChatSettings, method: str
    ) -> AsyncIterator[AnswerEvent]:
        """Events of one answer, the Answer last. Leaving the iteration cancels."""
        ...

    async def stop(self) -> None:
        """End the running answer; it keeps what it has."""
        ...

    async def plain_rate(self) -> float | None:
        """Tokens per second that plain decoding would give now, as the controller knows it."""
        ...

    async def unload(self) -> None: ...

    def bench(self, model: str, choice: FitChoice, what: BenchChoice) -> Bench: ...

    def workloads(self) -> tuple[tuple[str, str], ...]:
        """Name and title of each workload."""
        ...

    def bench_history(self, model: str) -> tuple[BenchEntry, ...]:
        """Newest first."""
        ...

    def doctor(self) -> tuple[FactGroup, ...]:
        """Takes seconds: starts a process."""
        ...

    def log(self) -> list[str]:
        """The last lines of the native log, oldest first."""
        ...

    def read_state(self) -> dict[str, Any]: ...

    def write_state(self, state: dict[str, Any]) -> None: ...

    async def close(self) -> None:
        """Stop downloads, which go on at the next start, and end the engine's process.

        Returns within two seconds, whatever either does.
        """
        ...
