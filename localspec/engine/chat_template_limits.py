"""What one rendering of a chat template may use up: steps, characters, sizes and seconds."""

from __future__ import annotations

import ctypes
import re
import threading
from types import TracebackType
from typing import Any

SECONDS = 5.0
_MAX_ITEMS = 1_000_000
"""Length of any one string or list that an operator or filter makes."""
_BASE_STEPS = 1_000_000
_BASE_CHARACTERS = 4_000_000
_WIDE_FORMAT = re.compile(r"\d{6,}|%[-+ #0]*\*|%[^a-zA-Z%]*\.\*")


class LimitReached(Exception):
    """The template did more than any honest one does."""


class OutOfTime(BaseException):
    """Thrown into the rendering thread; no `except Exception` on the way may stop it."""


class Budget:
    """What one rendering may still do."""

    def __init__(self, input_characters: int) -> None:
        self.steps = _BASE_STEPS + 4 * input_characters
        self.characters = _BASE_CHARACTERS + 16 * input_characters
        self._largest = _MAX_ITEMS + 4 * input_characters

    def step(self, characters: int = 0) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise LimitReached("it loops without end")
        self.emit(characters)

    def emit(self, characters: int) -> None:
        self.characters -= characters
        if self.characters < 0:
            raise LimitReached("its output is far larger than the conversation")

    def measure(self, count: int) -> None:
        """Refuse to make a string or list of `count` items where that is enormous."""
        if count > self._largest:
            raise LimitReached("it asks for an enormous string")

    def measure_method(self, owner: str, method: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a string method that would make an enormous string."""
        if method == "replace" and len(arguments) > 1:
            old, new = str(arguments[0]), str(arguments[1])
            self.measure(len(owner) + owner.count(old) * max(0, len(new) - len(old)))
        elif method == "join" and arguments and isinstance(arguments[0], list | tuple):
            items = arguments[0]
            self.measure(sum(len(str(item)) for item in items) + len(owner) * len(items))
        elif method in ("ljust", "rjust", "center", "zfill", "expandtabs"):
            width = sum(abs(argument) for argument in arguments if isinstance(argument, int))
            self.measure(width * max(1, owner.count("\t")))
        elif method in ("format", "format_map"):
            refuse_wide_format(owner)


class Deadline:
    """Throws an exception into the thread that entered it, once the time is up."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._lock = threading.Lock()
        self._finished = False
        self._fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._finished = True
        self._timer.cancel()
        if self._fired and kind is not OutOfTime:
            # Thrown but not yet arrived: wait for it here, not somewhere in the caller.
            for _ in range(100_000):
                pass

    def _fire(self) -> None:
        with self._lock:
            if not self._finished:
                self._fired = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(OutOfTime)
                )


def refuse_wide_format(text: str) -> None:
    """Refuse a format string that asks for more than 99,999 places."""
    if _WIDE_FORMAT.search(text):
        raise LimitReached("it asks for an enormous string")
