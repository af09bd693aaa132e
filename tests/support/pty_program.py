"""`localspec` in a terminal of its own, typed into and read from; POSIX only."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import time
from types import TracebackType

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
_PATIENCE_S = 60.0


class PtyProgram:
    """A child whose terminal we hold the other end of."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        import pty

        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            command = [sys.executable, "-m", "localspec", *arguments]
            os.execve(sys.executable, command, {**os.environ, "TERM": "xterm", **environment})
        self._shown = ""

    def __enter__(self) -> PtyProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, text: str) -> str:
        """What was shown up to `text`, control codes left out. Raises AssertionError without it."""
        deadline = time.monotonic() + _PATIENCE_S
        while text not in self._shown:
            assert time.monotonic() < deadline, f"{text!r} never came: {self._shown[-500:]!r}"
            assert self._read_some(), f"it ended before {text!r}: {self._shown[-500:]!r}"
        before, _, self._shown = self._shown.partition(text)
        return before

    def end(self) -> int:
        """Read to the end; the exit code. Raises AssertionError when it goes on."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._read_some():
            pass
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline, f"it does not end: {self._shown[-500:]!r}"
            time.sleep(0.02)
        return os.waitstatus_to_exitcode(ended[1])

    def _read_some(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], _PATIENCE_S)
        if not ready:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        if b"\x1b[6n" in data:
            # Where is the cursor? A terminal answers, and so must we.
            self.type("\x1b[1;1R")
        self._shown += _CONTROL.sub("", data.decode("utf-8", "replace"))
        return bool(data)
