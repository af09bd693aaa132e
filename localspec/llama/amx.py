"""Keeps ggml from Intel's matrix tiles (AMX), where it crashes.

Built with a common compiler (GCC 12), ggml-cpu/amx/mmq.cpp loads a tile configuration that the
compiler has optimised away, and a pass of more than one token ends in SIGSEGV or SIGILL on every
quantised model: https://github.com/ggml-org/llama.cpp/pull/26954. Nothing tells a good build from a
bad one before it crashes, so no build uses them: the repacked kernels (AVX-512) take their place.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from localspec.errors import EngineError

_CPU = 0
"""GGML_BACKEND_DEVICE_TYPE_CPU of ggml-backend.h."""
_SMALLEST_STACK = 2048
"""MINSIGSTKSZ of x86-64: a signal's frame with tile registers, 11 KiB, does not fit."""

_Finder = Callable[[str], Any]
"""`library.find_symbol`."""


class _SignalStack(ctypes.Structure):
    """stack_t of sigaltstack(2)."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("size", ctypes.c_size_t),
    )


def keep_off(find_symbol: _Finder) -> None:
    """Have ggml find that it may not use tiles. To be called before it looks for the first time.

    ggml asks Linux for the tile registers once, when it first lists the CPU's kinds of buffers
    (ggml-cpu.cpp: ggml_backend_cpu_get_extra_buffer_types), and does without when refused. Linux
    refuses while a thread's signal stack is too small for them, so one is, just then. Does nothing
    where the library knows no tiles. Raises EngineError when ggml got hold of them all the same.
    """
    has_tiles = find_symbol("ggml_cpu_has_amx_int8")
    if sys.platform != "linux" or has_tiles is None or not has_tiles():
        return
    with _small_signal_stack(), _silent():
        kinds = cpu_buffer_kinds(find_symbol)
    if "AMX" in kinds:
        raise EngineError(
            "this llama.cpp insists on AMX, with which quantised models crash",
            hint="build it without: CMAKE_ARGS=-DGGML_NATIVE=OFF pip install --force-reinstall "
            "--no-cache-dir llama-cpp-python",
        )


def cpu_buffer_kinds(find_symbol: _Finder) -> tuple[str, ...]:
    """Where the CPU may keep weights besides plain memory: `CPU_REPACK`, `AMX`."""
    by_type = find_symbol("ggml_backend_dev_by_type")
    registry = find_symbol("ggml_backend_dev_backend_reg")
    address = find_symbol("ggml_backend_reg_get_proc_address")
    name = find_symbol("ggml_backend_buft_name")
    if not (by_type and registry and address and name):
        return ()
    by_type.argtypes, by_type.restype = [ctypes.c_int], ctypes.c_void_p
    registry.argtypes, registry.restype = [ctypes.c_void_p], ctypes.c_void_p
    address.argtypes, address.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    cpu = by_type(_CPU)
    found = address(registry(cpu), b"ggml_backend_dev_get_extra_bufts") if cpu else None
    if not found:
        return ()
    signature = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
    kinds = signature(found)(cpu)
    names: list[str] = []
    while kinds and kinds[len(names)]:
        names.append((name(kinds[len(names)]) or b"").decode("utf-8", "replace"))
    return tuple(names)


@contextlib.contextmanager
def _small_signal_stack() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    memory = ctypes.create_string_buffer(_SMALLEST_STACK)
    small, before = _SignalStack(ctypes.addressof(memory), 0, _SMALLEST_STACK), _SignalStack()
    is_set = libc.sigaltstack(ctypes.byref(small), ctypes.byref(before)) == 0
    try:
        yield
    finally:
        if is_set:
            libc.sigaltstack(ctypes.byref(before), None)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """ggml tells the refusal on standard error, past its log."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
