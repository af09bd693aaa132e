"""The engine as the screens use it: one pair in memory at a time, answers out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localspec.chats.conversation import Turn
from localspec.errors import LocalspecError, UsageError
from localspec.events import LoadProgress, Notice
from localspec.paths import Paths
from localspec.tui.backend.contract import AnswerEvent
from localspec.tui.backend.views import ChatSettings, FitChoice, LoadedView

if TYPE_CHECKING:
    from localspec.engine.client import EngineClient
    from localspec.engine.guard import Guarded
    from localspec.engine.settings import EngineSettings, GenerateRequest
    from localspec.hub.resolve import ResolvedPair

OnEvent = Callable[[LoadProgress | Notice], None]


class EngineRoom:
    """Owns the engine's client. What is loaded stays until something else is asked for."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._client: EngineClient | None = None
        self._settings: EngineSettings | None = None
        self.loaded: LoadedView | None = None
        self.choice = FitChoice()
        """How it was loaded."""
        self._stopping = False
        self.log_lines: list[str] = []
        """What was said about loading and crashes, oldest first."""

    async def load(
        self, resolved: ResolvedPair, choice: FitChoice, method: str, on_event: OnEvent
    ) -> LoadedView:
        """Raises what EngineClient.start raises; DoesNotFit before anything is loaded; UsageError
        when a file is missing."""
        from localspec.engine.client import EngineClient

        settings = engine_settings(resolved, choice, self._paths)
        if self._client is not None and self._settings == settings and self.loaded:
            return self.loaded
        await self.unload()

        def tell(event: LoadProgress | Notice) -> None:
            if isinstance(event, Notice):
                self.log_lines.append(event.message)
            on_event(event)

        guarded = await asyncio.to_thread(_guarded, settings, self._paths)
        for notice in guarded.notices:
            tell(notice)
        client = await EngineClient.start(replace(guarded.settings, method=method), tell)
        self._client, self._settings, self.choice = client, settings, choice
        facts = client.facts
        self.loaded = LoadedView(
            id=resolved.id,
            name=resolved.target.name,
            n_ctx=int(facts.get("n_ctx", 0)),
            has_draft=settings.draft is not None,
            description=str(facts.get("description", "")),
            load_s=float(facts.get("load_s", 0.0)),
        )
        return self.loaded

    async def answer(
        self, turns: tuple[Turn, ...], settings: ChatSettings, method: str
    ) -> AsyncIterator[AnswerEvent]:
        client = self._needed()
        self._stopping = False
        stream: Any = client.generate(chat_request(turns, settings, method))
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Notice):
                        self.log_lines.append(event.message)
                    if self._stopping:
                        # Asked for before the engine knew the question: while it loaded again.
                        await client.cancel()
                    yield event
        except LocalspecError as error:
            self.log_lines += [str(line) for line in error.fields.get("log", [])]
            self.log_lines.append(error.message)
            raise

    @property
    def pid(self) -> int | None:
        """Of the engine's process."""
        return self._client.pid if self._client is not None else None

    async def stop(self) -> None:
        self._stopping = True
        if self._client is not None:
            await self._client.cancel()

    async def plain_rate(self) -> float | None:
        """What the controller of the last `auto` answer expects of plain decoding."""
        if self._client is None:
            return None
        told = await self._client.explain()
        rate = told.get("plain_rate")
        return float(rate) if isinstance(rate, int | float) and rate > 0 else None

    async def unload(self) -> None:
        client, self._client = self._client, None
        self.loaded = self._settings = None
        if client is not None:
            await client.close()

    def client(self) -> EngineClient:
        """For measuring. Raises UsageError when nothing is loaded."""
        return self._needed()

    def log(self) -> list[str]:
        """The last lines that the native side printed, after what was told before."""
        native = self._client.log_lines() if self._client is not None else []
        return [*self.log_lines[-100:], *native]

    def _needed(self) -> EngineClient:
        if self._client is None:
            raise UsageError("no model is loaded", hint="F3 shows the models; enter runs one")
        return self._client


def _guarded(settings: EngineSettings, paths: Paths) -> Guarded:
    from localspec.engine.guard import settings_that_fit, this_machine_quickly
    from localspec.memory.calibration import Calibration

    return settings_that_fit(settings, this_machine_quickly(Calibration(paths.calibration)))


def engine_settings(resolved: ResolvedPair, choice: FitChoice, paths: Paths) -> EngineSettings:
    """How to load `resolved` as `choice` says. Raises UsageError when a file is missing."""
    from localspec.engine.settings import EngineSettings, ModelSettings
    from localspec.hub.resolve import LocalFile

    target = resolved.target
    if not isinstance(target, LocalFile):
        raise UsageError(f"{target.name} is not on this machine yet", hint="p pulls it")
    draft = None
    if choice.use_draft and resolved.draft is not None:
        if not isinstance(resolved.draft, LocalFile):
            raise UsageError(f"{resolved.draft.name} is not on this machine yet", hint="p pulls it")
        draft = ModelSettings(resolved.draft.path, choice.draft_gpu_layers, choice.draft_kv_type)
    settings = EngineSettings(
        target=ModelSettings(target.path, choice.gpu_layers, choice.kv_type),
        model_id=resolved.id,
        draft=draft,
        n_ctx=choice.n_ctx,
        n_ubatch=choice.n_ubatch,
        lookup_folder=paths.lookup,
        cost_folder=paths.costs,
        calibration=paths.calibration,
    )
    draft_max = choice.draft_max or resolved.draft_max
    if draft_max is not None:
        settings = replace(settings, draft_max=draft_max)
    if resolved.p_min is not None:
        settings = replace(settings, p_min=resolved.p_min)
    return settings


def chat_request(turns: tuple[Turn, ...], settings: ChatSettings, method: str) -> GenerateRequest:
    """The next answer of a conversation. Raises UsageError for values out of range."""
    from localspec.decoding.sampling import SamplingSettings
    from localspec.engine.settings import ChatMessage, GenerateRequest

    system = (ChatMessage("system", settings.system),) if settings.system.strip() else ()
    sampling = SamplingSettings(
        temp=settings.temp,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        repeat_penalty=settings.repeat_penalty,
        seed=settings.seed,
    )
    sampling.check()
    return GenerateRequest(
        messages=system + tuple(ChatMessage(t.role, t.content, t.thinking) for t in turns),
        sampling=sampling,
        max_tokens=settings.max_tokens,
        method=method,
        draft_max=settings.draft_max,
    )
