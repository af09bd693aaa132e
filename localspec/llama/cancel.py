"""A flag that stops llama.cpp in the middle of a pass without a Python call per graph node."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from llama_cpp import llama_cpp as lib


class CancelFlag:
    """Set from any thread; llama.cpp looks at it between graph nodes and stops when it is set.

    ggml asks `bool abort_callback(void * data)` after every node. libc's `strlen` has that shape:
    it is 0 while the first byte of `data` is 0 and 1 once it is not. So the check costs no GIL and
    no Python, where a Python callback would cost about a millisecond per pass.
    """

    def __init__(self) -> None:
        self._byte = ctypes.create_string_buffer(2)
        libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
        address = ctypes.cast(libc.strlen, ctypes.c_void_p).value
        assert address is not None
        self.callback: Any = lib.ggml_abort_callback(address)
        self.data = ctypes.cast(self._byte, ctypes.c_void_p)

    def set(self) -> None:
        self._byte[0] = b"\x01"

    def clear(self) -> None:
        self._byte[0] = b"\x00"

    @property
    def is_set(self) -> bool:
        return bool(self._byte[0] != b"\x00")
