"""The parent's side of the engine: asynchronous, and alive whatever happens to the child."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

from localspec.engine.child import Child
from localspec.engine.messages import (
    LOADING,
    Ask,
    Cancel,
    Close,
    Done,
    Embed,
    Explain,
    Failed,
    Generate,
    NextLogits,
    Reply,
    Request,
    Said,
)
from localspec.engine.questions import Question, TokensOf
from localspec.engine.settings import Embeddings, EmbedRequest, EngineSettings, GenerateRequest
from localspec.engine.worker import main
from localspec.errors import EngineCrashed, EngineError, LocalspecError
from localspec.events import Answer, LoadProgress, Notice, PromptProgress, RoundDone, TextDelta

GenerationEvent = PromptProgress | TextDelta | RoundDone | Notice | Answer
OnEvent = Callable[[LoadProgress | Notice], None]


class EngineClient:
    """One engine: models loaded in a child process, answers out of it, one after the other.

    When the child dies, whatever was running fails with EngineCrashed, and the next request starts
    a new child with the same settings.
    """

    def __init__(self, settings: EngineSettings, on_event: OnEvent) -> None:
        """`start` is the way to make one."""
        self._settings = settings
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(LOADING + 1)
        self._child: Child | None = None
        self._waiting: dict[int, asyncio.Queue[Reply | LocalspecError]] = {}
        self._slots = asyncio.Semaphore(settings.n_slots)
        self._load_turn = asyncio.Lock()
        self._loaded = False
        self._running: set[int] = set()
        self._closed = False
        self.facts: dict[str, Any] = {}
        """What the session told about itself when it had loaded (`Session.facts`)."""

    @classmethod
    async def start(cls, settings: EngineSettings, on_event: OnEvent) -> EngineClient:
        """Load the models. `on_event` gets progress and notices, in the event loop's thread.

        Raises BadModelFile, IncompatiblePair, UsageError, EngineError, EngineCrashed. Cancelling
        the task that awaits this stops the loading.
        """
        client = cls(settings, on_event)
        try:
            await client._ensure_loaded()
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def settings(self) -> EngineSettings:
        return self._settings

    @property
    def pid(self) -> int | None:
        """Process id of the child; None when there is none."""
        return self._child.pid if self._child else None

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerationEvent, None]:
        """Events of one answer; the last is the Answer. Requests wait for a free slot.

        Leaving the iteration early cancels the answer. Raises what the session raised.
        """
        async with self._slots:
            await self._ensure_loaded()
            request_id = next(self._ids)
            replies = self._expect(request_id)
            self._running.add(request_id)
            finished = False
            try:
                self._send(Generate(request_id, request))
                while True:
                    reply = await replies.get()
                    if isinstance(reply, Said):
                        yield reply.event
                        continue
                    finished = True
                    yield _result(reply)
                    return
            finally:
                self._running.discard(request_id)
                if not finished and not self._closed:
                    self._send_if_alive(Cancel(request_id))
                    await self._drain(replies)
                self._waiting.pop(request_id, None)

    async def embed(self, request: EmbedRequest) -> Embeddings:
        """Vectors of texts, of an engine loaded for embeddings. Cancelling the task that awaits
        this stops the passes. Raises UsageError, PromptTooLong, EngineError, EngineCrashed."""
        found: Embeddings = await self._ask(lambda request_id: Embed(request_id, request))
        return found

    async def cancel(self) -> None:
        """Stop the running answers; they then end with finish_reason `cancelled`."""
        for request_id in tuple(self._running):
            self._send_if_alive(Cancel(request_id))

    async def tokenize(self, text: str) -> list[int]:
        """Token ids of plain text, nothing added. Raises UsageError."""
        found: list[int] = await self.ask(TokensOf(text, parse_special=False))
        return found

    async def ask(self, question: Question) -> Any:
        """What `questions.answer` says. Raises UsageError, TemplateError."""
        return await self._ask(lambda request_id: Ask(request_id, question))

    async def next_logits(
        self, request: GenerateRequest, continuation: tuple[int, ...], candidates: tuple[int, ...]
    ) -> tuple[float, ...]:
        """Logits that plain decoding gives `candidates` after the prompt and `continuation`."""
        found: tuple[float, ...] = await self._ask(
            lambda request_id: NextLogits(request_id, request, continuation, candidates)
        )
        return found

    async def explain(self) -> dict[str, Any]:
        """What the controller knows and did: JSON-compatible."""
        found: dict[str, Any] = await self._ask(Explain)
        return found

    def log_lines(self, count: int = 200) -> list[str]:
        """The last lines of the native log, oldest first; empty when no child runs."""
        return self._child.last_lines(count) if self._child is not None else []

    async def close(self) -> None:
        """End the child; what it learned is saved. May be called twice."""
        self._closed = True
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(OSError):
            child.connection.send(Close())
        await asyncio.to_thread(child.close)
        for replies in self._waiting.values():
            replies.put_nowait(EngineError("the engine was closed"))

    async def _ask(self, build: Callable[[int], Request]) -> Any:
        """Questions wait for no slot: they are answered between the passes of answers."""
        await self._ensure_loaded()
        request_id = next(self._ids)
        replies = self._expect(request_id)
        try:
            self._send(build(request_id))
            while isinstance(reply := await replies.get(), Said):
                pass
            return _result(reply)
        except asyncio.CancelledError:
            if not self._closed:
                self._send_if_alive(Cancel(request_id))
            raise
        finally:
            self._waiting.pop(request_id, None)

    async def _ensure_loaded(self) -> None:
        if self._closed:
            raise EngineError("the engine is closed")
        if self._is_loaded():
            return
        async with self._load_turn:
            # Whoever waited for the turn finds the models loaded.
            if not self._is_loaded():
                await self._load()

    def _is_loaded(self) -> bool:
        return self._loaded and self._child is not None and self._child.is_alive

    async def _load(self) -> None:
        self._loaded = False
        if self._child is not None:
            await asyncio.to_thread(self._child.close)
        replies = self._expect(LOADING)
        child = self._child = Child("localspec-engine", main, self._settings)
        threading.Thread(
            target=self._listen, args=(child,), name="localspec-engine-listener", daemon=True
        ).start()
        try:
            while isinstance(reply := await replies.get(), Said):
                self._on_event(reply.event)
            self.facts = _result(reply)
            self._loaded = True
        except asyncio.CancelledError:
            self._send_if_alive(Cancel(LOADING))
            raise
        finally:
            self._waiting.pop(LOADING, None)

    def _expect(self, request_id: int) -> asyncio.Queue[Reply | LocalspecError]:
        replies: asyncio.Queue[Reply | LocalspecError] = asyncio.Queue()
        self._waiting[request_id] = replies
        return replies

    def _send(self, message: Request) -> None:
        child = self._child
        if child is None:
            raise EngineError("the engine is closed")
        try:
            child.connection.send(message)
        except OSError:
            raise child.crash() from None

    def _send_if_alive(self, message: Request) -> None:
        with contextlib.suppress(LocalspecError):
            self._send(message)

    async def _drain(self, replies: asyncio.Queue[Reply | LocalspecError]) -> None:
        """Wait for the end of a cancelled answer, so that the next one does not meet it."""
        while isinstance(await replies.get(), Said):
            pass

    def _listen(self, child: Child) -> None:
        """Runs in a thread of its own: the pipe's reads block."""
        while True:
            try:
                replies = child.connection.recv()
            except (EOFError, OSError, TypeError):
                # TypeError: the connection was closed under a blocking read.
                break
            self._call(self._deliver, replies)
        if not self._closed:
            self._call(self._fail_all, child, child.crash())

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _deliver(self, told: list[Reply]) -> None:
        """Replies that came together, in order."""
        for reply in told:
            replies = self._waiting.get(reply.id)
            if replies is not None:
                replies.put_nowait(reply)
            elif isinstance(reply, Said) and isinstance(reply.event, Notice):
                # Said after its answer had ended, as when the lookup cache could not be saved.
                self._on_event(reply.event)

    def _fail_all(self, child: Child, crash: EngineCrashed) -> None:
        if child is self._child:
            for replies in self._waiting.values():
                replies.put_nowait(crash)


def _result(reply: Reply | LocalspecError) -> Any:
    if isinstance(reply, Done):
        return reply.result
    if isinstance(reply, Failed):
        raise LocalspecError.from_dict(reply.error)
    assert isinstance(reply, LocalspecError)
    raise reply
