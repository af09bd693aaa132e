"""The engine's child process: one owner thread that runs llama.cpp, one that listens."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from localspec.engine.messages import (
    LOADING,
    Ask,
    Cancel,
    Close,
    Done,
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


def main(connection: Connection[Any, Any], settings: EngineSettings) -> None:
    """Load, then serve requests until Close or until the parent is gone."""
    _Worker(connection).run(settings)


class _Worker:
    def __init__(self, connection: Connection[Any, Any]) -> None:
        # llama_cpp is imported here, in the child, and nowhere in the parent.
        from localspec.llama import library
        from localspec.llama.cancel import CancelFlag
        from localspec.llama.log import NativeLog

        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        self._connection = connection
        self._log = NativeLog()
        self._start_library = library.start
        self._cancel = CancelFlag()
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = LOADING
        self._cancelled: set[int] = set()

    def run(self, settings: EngineSettings) -> None:
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        from localspec.engine.session import Session

        try:
            self._start_library()
            session = Session(settings, self._log, self._cancel, self._teller(LOADING))
        except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
            self._send(Failed(LOADING, _as_data(error)))
            return
        self._send(Done(LOADING, session.facts))
        try:
            while not isinstance(request := self._requests.get(), Close):
                self._serve(session, request)
        finally:
            session.close()

    def _serve(self, session: Any, request: Request) -> None:
        if isinstance(request, Cancel | Close):
            return
        with self._lock:
            self._running = request.id
            is_cancelled = request.id in self._cancelled
        try:
            if is_cancelled:
                raise Cancelled("the request was cancelled before it began")
            result: Any
            if isinstance(request, Generate):
                result = session.generate(request.request, self._teller(request.id))
            elif isinstance(request, Ask):
                result = session.ask(request.question)
            elif isinstance(request, NextLogits):
                result = session.next_logits(
                    request.request, request.continuation, request.candidates
                )
            else:
                assert isinstance(request, Explain)
                result = session.explain()
            reply: Reply = Done(request.id, result)
        except Exception as error:  # noqa: BLE001 - told to the parent, whatever it is
            reply = Failed(request.id, _as_data(error))
        with self._lock:
            # From here on a late cancel finds nothing to stop.
            self._running = -1
            self._cancelled.discard(request.id)
            self._cancel.clear()
        self._send(reply)

    def _listen(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                # The parent is gone: stop what runs, save, and end.
                self._cancel.set()
                self._requests.put(Close())
                return
            if isinstance(message, Cancel):
                self._stop(message.id)
            else:
                if isinstance(message, Close):
                    self._cancel.set()
                self._requests.put(message)

    def _stop(self, request_id: int) -> None:
        with self._lock:
            if self._running == request_id:
                self._cancel.set()
            else:
                self._cancelled.add(request_id)

    def _teller(self, request_id: int) -> Any:
        return lambda event: self._send(Said(request_id, event))

    def _send(self, reply: Reply) -> None:
        try:
            self._connection.send(reply)
        except (BrokenPipeError, OSError):
            self._cancel.set()


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
