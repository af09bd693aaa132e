"""The engine's child process: one owner thread that runs llama.cpp, one that listens."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import traceback
from collections import deque
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

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
from localspec.engine.settings import EngineSettings
from localspec.errors import Cancelled, EngineError, LocalspecError

if TYPE_CHECKING:
    from localspec.engine.embedding_session import EmbeddingSession
    from localspec.engine.session import Session

    AnySession = Session | EmbeddingSession


def main(connection: Connection[Any, Any], settings: EngineSettings) -> None:
    """Load, then serve requests until Close or until the parent is gone."""
    _Worker(connection).run(settings)


class _Worker:
    def __init__(self, connection: Connection[Any, Any]) -> None:
        # llama_cpp is imported here, in the child, and nowhere in the parent.
        from localspec.llama import library
        from localspec.llama.cancel import CancelFlag
        from localspec.llama.log import NativeLog

        # A file of the child's own: shown by the UI's log screen, and after a crash.
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
        self._connection = connection
        self._log = NativeLog()
        self._start_library = library.start
        self._cancel = CancelFlag()
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._waiting: deque[Request] = deque()
        """Requests that came and cannot be served yet, in order."""
        self._lock = threading.Lock()
        self._running: set[int] = {LOADING}
        self._cancelled: set[int] = set()
        self._is_closing = False
        self._gathered: list[Reply] = []
        """What the answers of a pass said: told together, since every message wakes the parent,
        which takes time from the next pass."""

    def run(self, settings: EngineSettings) -> None:
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        try:
            self._start_library()
            session = _open(settings)(settings, self._log, self._cancel, self._teller(LOADING))
        except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
            self._tell(Failed(LOADING, _as_data(error)))
            return
        with self._lock:
            self._running.discard(LOADING)
            self._cancel.clear()
        self._tell(Done(LOADING, session.facts))
        try:
            self._serve_all(session)
        finally:
            session.close()
            self._tell()

    def _serve_all(self, session: AnySession) -> None:
        """Requests between passes, passes while there are answers to go on with."""
        ids: dict[Any, int] = {}
        while True:
            self._fetch(wait=session.is_idle and not self._waiting)
            if self._is_closing:
                return
            while self._waiting and self._can_serve(session, self._waiting[0]):
                request = self._waiting.popleft()
                if isinstance(request, Generate):
                    self._begin(session, request, ids)
                else:
                    self._answer(session, request)
                self._tell()
            if session.is_idle:
                continue
            try:
                ended = session.step()
            except Exception as error:
                # Not one answer failed but the passes themselves: nobody's memory can be trusted.
                for request_id in ids.values():
                    self._finish(Failed(request_id, _as_data(error)))
                raise
            for over in ended:
                request_id = ids.pop(over.running)
                try:
                    reply: Reply = Done(request_id, over.result())
                except LocalspecError as error:
                    reply = Failed(request_id, _as_data(error))
                self._finish(reply)
            self._tell()

    def _fetch(self, *, wait: bool) -> None:
        """Take up what came; `wait` for the first of it."""
        # This thread alone takes from the queue, so what is there stays there until it is taken.
        while wait or not self._requests.empty():
            request = self._requests.get()
            wait = False
            if isinstance(request, Close):
                self._is_closing = True
            elif not isinstance(request, Cancel):
                self._waiting.append(request)

    def _can_serve(self, session: AnySession, request: Request) -> bool:
        if isinstance(request, Generate):
            return session.has_free_slot
        # It replaces what memory holds, so no answer may be running.
        return session.is_idle or not isinstance(request, NextLogits)

    def _begin(self, session: AnySession, request: Generate, ids: dict[Any, int]) -> None:
        with self._lock:
            self._running.add(request.id)
            # The flag stops passes; it was meant for an answer that ran alone. That answer still
            # ends, since it is among the cancelled.
            self._cancel.clear()
        try:
            if request.id in self._cancelled:
                raise Cancelled("the request was cancelled before it began")
            running = session.begin(
                request.request,
                self._teller(request.id),
                lambda: request.id in self._cancelled or self._is_closing,
            )
        except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
            self._finish(Failed(request.id, _as_data(error)))
        else:
            ids[running] = request.id

    def _answer(self, session: AnySession, request: Request) -> None:
        """A question that needs no passes, or passes of its own."""
        assert isinstance(request, Ask | Embed | NextLogits | Explain)
        try:
            if request.id in self._cancelled:
                raise Cancelled("the request was cancelled before it began")
            result: Any
            if isinstance(request, Ask):
                result = session.ask(request.question)
            elif isinstance(request, Embed):
                self._may_be_stopped(request.id)
                result = session.embed(request.request)
            elif isinstance(request, NextLogits):
                self._may_be_stopped(request.id)
                result = session.next_logits(
                    request.request, request.continuation, request.candidates
                )
            else:
                result = session.explain()
            reply: Reply = Done(request.id, result)
        except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
            reply = Failed(request.id, _as_data(error))
        self._finish(reply)

    def _may_be_stopped(self, request_id: int) -> None:
        """From here on cancelling the request stops its passes."""
        with self._lock:
            self._running.add(request_id)

    def _finish(self, reply: Reply) -> None:
        with self._lock:
            # From here on a late cancel finds nothing to stop.
            self._running.discard(reply.id)
            self._cancelled.discard(reply.id)
            if not self._is_closing:
                self._cancel.clear()
        self._gathered.append(reply)

    def _listen(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                # The parent is gone: stop what runs, save, and end.
                self._close()
                return
            if isinstance(message, Cancel):
                self._stop(message.id)
            elif isinstance(message, Close):
                self._close()
            else:
                self._requests.put(message)

    def _close(self) -> None:
        with self._lock:
            self._is_closing = True
            self._cancel.set()
        self._requests.put(Close())

    def _stop(self, request_id: int) -> None:
        with self._lock:
            self._cancelled.add(request_id)
            # Others share the passes of an answer that does not run alone: it ends between two.
            if self._running == {request_id}:
                self._cancel.set()

    def _teller(self, request_id: int) -> Any:
        if request_id == LOADING:
            return lambda event: self._tell(Said(LOADING, event))
        return lambda event: self._gathered.append(Said(request_id, event))

    def _tell(self, *replies: Reply) -> None:
        """Send what was gathered, and `replies` after it."""
        gathered, self._gathered = [*self._gathered, *replies], []
        if not gathered:
            return
        try:
            self._connection.send(gathered)
        except (BrokenPipeError, OSError):
            self._cancel.set()


def _open(settings: EngineSettings) -> type[AnySession]:
    if settings.embeddings:
        from localspec.engine.embedding_session import EmbeddingSession

        return EmbeddingSession
    from localspec.engine.session import Session

    return Session


def _as_data(error: Exception) -> dict[str, Any]:
    if isinstance(error, LocalspecError):
        return error.as_dict()
    # A mistake of ours: its trace goes to the engine's own output, one line to the user.
    traceback.print_exception(error)
    trace = "".join(traceback.format_exception(error))
    return EngineError(
        f"internal error in the engine: {type(error).__name__}: {error}",
        hint="--debug shows where; please report it",
        trace=trace,
    ).as_dict()
