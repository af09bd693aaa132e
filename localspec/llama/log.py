"""llama.cpp's own log: kept off the screen, routed to Python logging, its last lines remembered."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from llama_cpp import llama_cpp as lib

# enum ggml_log_level of ggml.h; the comment in the bindings shows an older order.
_LEVELS = {
    1: logging.DEBUG,
    2: logging.INFO,
    3: logging.WARNING,
    4: logging.ERROR,
}
_CONTINUE = 5

logger = logging.getLogger("localspec.llama")

# The native side keeps a pointer for the life of the process, and calls it from any thread: the
# callback must outlive the object that installed it.
_INSTALLED: list[Any] = []


class NativeLog:
    """Owns the process-wide log callback of llama.cpp and ggml.

    Bindings install one of their own at import that prints; this replaces it. Lines reach Python
    logging under `localspec.llama`, and the last `keep` of them stay here, whatever their level,
    for error messages and for the probe.
    """

    def __init__(self, keep: int = 400) -> None:
        self._lines: deque[str] = deque(maxlen=keep)
        self._level = logging.INFO
        self._partial = ""
        self._first_error = ""
        callback: Any = lib.llama_log_callback(self._receive)
        lib.llama_log_set(callback, None)
        _INSTALLED[:] = [callback]

    def lines(self) -> list[str]:
        """The last lines, oldest first."""
        return list(self._lines)

    def clear(self) -> None:
        self._lines.clear()
        self._first_error = ""

    def reason(self) -> str:
        """The first error since `clear`, where the cause stands; later ones only say that callers
        failed too. Empty when there is none."""
        return self._first_error

    def _receive(self, level: int, text: bytes, _data: Any) -> None:
        if level != _CONTINUE:
            self._level = _LEVELS.get(level, logging.INFO)
        self._partial += text.decode("utf-8", "replace")
        if not self._partial.endswith("\n"):
            return
        lines, self._partial = self._partial.splitlines(), ""
        for line in lines:
            if line.strip(" ."):
                self._lines.append(line)
                if self._level == logging.ERROR and not self._first_error:
                    self._first_error = line
                logger.log(self._level, "%s", line)
