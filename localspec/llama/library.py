"""The native library: is it one we know, and how its symbols are found.

Everything else in this package imports `llama_cpp.llama_cpp` as `lib`; this module checks once,
before the first call that matters, that what was loaded behaves like the version the structures
were written for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from llama_cpp import __version__ as binding_version
from llama_cpp import llama_cpp as lib
from llama_cpp._ctypes_extensions import load_shared_library

from localspec.errors import EngineError
from localspec.llama import amx

TESTED_BINDINGS = ("0.3.36",)
"""Versions of llama-cpp-python this code was tested with; pyproject.toml pins the same range."""


def start() -> None:
    """Initialise llama.cpp for this process. Raises EngineError for a library we do not know."""
    _check_known()
    amx.keep_off(find_symbol)
    lib.llama_backend_init()


def library_version() -> str:
    """`llama-cpp-python 0.3.36, llama.cpp 0.5.0`."""
    return f"llama-cpp-python {binding_version}, llama.cpp {lib.llama_version().decode()}"


def find_symbol(*names: str) -> Any | None:
    """The first exported function of that name in llama.cpp's libraries, or None.

    C++ names differ by platform, so callers give every spelling; argtypes are theirs to set.
    """
    for handle in _handles():
        for name in names:
            found = getattr(handle, name, None)
            if found is not None:
                return found
    return None


def _check_known() -> None:
    if binding_version not in TESTED_BINDINGS:
        raise EngineError(
            f"llama-cpp-python {binding_version} is installed, this program knows "
            f"{', '.join(TESTED_BINDINGS)}",
            hint=f"pip install 'llama-cpp-python=={TESTED_BINDINGS[-1]}'",
        )
    # LLAMA_CPP_LIB_PATH may have brought another library under known bindings: its defaults, read
    # through our structures, tell whether the fields still lie where we think they do.
    context, model = lib.llama_context_default_params(), lib.llama_model_default_params()
    seen = (
        context.n_ctx,
        context.n_batch,
        context.n_ubatch,
        context.n_seq_max,
        context.type_k,
        context.type_v,
        bool(context.swa_full),
        model.n_gpu_layers,
        bool(model.vocab_only),
        bool(model.no_alloc),
    )
    known = (512, 2048, 512, 1, lib.GGML_TYPE_F16, lib.GGML_TYPE_F16, True, -1, False, False)
    if seen != known:
        raise EngineError(
            f"the loaded llama.cpp ({lib.llama_version().decode()}) has other defaults {seen} than "
            f"the known one {known}",
            hint="unset LLAMA_CPP_LIB_PATH, or install the llama-cpp-python this program pins",
        )


def _handles() -> list[ctypes.CDLL]:
    handles: list[ctypes.CDLL] = [lib._lib]
    folder = Path(lib._base_path)
    for name in ("ggml", "ggml-base"):
        try:
            handles.append(load_shared_library(name, folder))
        except (FileNotFoundError, RuntimeError, OSError):
            # A monolithic build has everything in libllama.
            continue
    return handles
