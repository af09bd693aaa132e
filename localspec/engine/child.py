"""A child process that may crash without taking anything along, its output kept off the screen."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from localspec.engine import huge_pages
from localspec.errors import EngineCrashed, LocalspecError

_TAIL_BYTES = 4096


class Child:
    """Runs `main(connection, *arguments)` in a new Python (spawn), joined to us by a pipe.

    Whatever it or native code prints goes to a file of its own, whose last lines explain a crash.
    """

    def __init__(self, name: str, main: Callable[..., None], *arguments: Any) -> None:
        handle, path = tempfile.mkstemp(prefix="localspec-", suffix=".log")
        # The child removes the name once it has the file open, where the system allows that: a
        # program that is killed leaves nothing behind.
        self._output = os.fdopen(handle, "rb")
        self._output_path = Path(path)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.connection: Connection[Any, Any] = ours
        self._process: BaseProcess = context.Process(
            target=_enter, name=name, args=(main, theirs, path, arguments), daemon=True
        )
        with _interrupts_blocked(), huge_pages.asked_for():
            self._process.start()
        theirs.close()
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def is_alive(self) -> bool:
        try:
            return self._process.is_alive()
        except ValueError:  # closed
            return False

    def crash(self) -> EngineCrashed:
        """What to tell when the pipe broke: how the process ended, and its last lines."""
        with contextlib.suppress(ValueError):  # closed before
            self._process.join(timeout=5)
            self._exit_code = self._process.exitcode
        lines = self.last_lines()
        reason = next((line for line in lines if "GGML_ASSERT" in line or "abort" in line), "")
        return EngineCrashed(
            f"the engine's process ended unexpectedly ({_how(self._exit_code)})"
            + (f": {reason}" if reason else ""),
            hint="try again; less context or fewer GPU layers may help; --debug shows its log",
            exit_code=self._exit_code,
            log=lines,
        )

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of what the child printed."""
        if self._output.closed:
            return []
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        text = self._output.read().decode("utf-8", "replace")
        return text.splitlines()[-count:]

    def close(self, timeout: float = 10.0) -> None:
        """Wait for the child to end; after `timeout` seconds end it. May be called twice."""
        with contextlib.suppress(ValueError):  # closed before
            self._process.join(timeout)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process.close()
        self.connection.close()
        self._output.close()
        self._output_path.unlink(missing_ok=True)


def run_in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function(*arguments)`, computed in a child that ends afterwards.

    Raises what the function raised, as LocalspecError; EngineCrashed when the child died.
    """
    child = Child(f"localspec-{function.__name__}", _call, function, arguments)
    try:
        ok, result = child.connection.recv()
    except EOFError:
        raise child.crash() from None
    finally:
        child.close()
    if not ok:
        raise LocalspecError.from_dict(result)
    return result


def _call(
    connection: Connection[Any, Any], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    try:
        connection.send((True, function(*arguments)))
    except LocalspecError as error:
        connection.send((False, error.as_dict()))


def _enter(
    main: Callable[..., None],
    connection: Connection[Any, Any],
    output: str,
    arguments: tuple[Any, ...],
) -> None:
    """First code of the child: the terminal belongs to the parent, and so does Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # ggml starts a debugger for a backtrace on abort; its message is enough.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    with open(output, "ab", buffering=0) as file:  # noqa: PTH123 - a plain descriptor is meant
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if sys.platform != "win32":
        Path(output).unlink(missing_ok=True)
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    main(connection, *arguments)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A child inherits the mask, so that Ctrl-C cannot strike it before it ignores the signal."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "no exit status"
    if exit_code >= 0:
        return f"exit status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"{name}, perhaps out of memory" if name == "SIGKILL" else name
