"""What this build of llama.cpp can do, and the devices it sees."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from llama_cpp import llama_cpp as lib

from localspec.llama.library import find_symbol, library_version

_DEVICE_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator", 4: "meta"}

_HEAD_SYMBOLS: dict[str, tuple[str, ...]] = {
    "mtp": (
        "llama_set_embeddings_nextn",
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "eagle3": (
        "llama_get_embeddings_layer_inp",
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
}


@dataclass(frozen=True, slots=True)
class Device:
    """One device as the backend reports it."""

    name: str
    """`CUDA0`, `MTL0`, `CPU`."""
    description: str
    kind: str
    """`cpu`, `gpu`, `igpu`, `accelerator`."""
    free: int
    """Bytes; 0 when the backend does not say."""
    total: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    version: str
    supports_gpu_offload: bool
    supports_mmap: bool
    devices: tuple[Device, ...]
    cpu_features: tuple[str, ...]
    """Instruction sets this build uses: AVX2, AVX512, NEON."""
    head_symbols: tuple[str, ...]
    """Which kinds of heads this build exports the functions for."""


def capabilities() -> Capabilities:
    """Ask the loaded library. `library.start()` must have run."""
    return Capabilities(
        version=library_version(),
        supports_gpu_offload=bool(lib.llama_supports_gpu_offload()),
        supports_mmap=bool(lib.llama_supports_mmap()),
        devices=devices(),
        cpu_features=_cpu_features(),
        head_symbols=tuple(kind for kind, names in _HEAD_SYMBOLS.items() if find_symbol(*names)),
    )


def devices() -> tuple[Device, ...]:
    """Every device of every backend (ggml-backend.h: ggml_backend_dev_*)."""
    count, get = find_symbol("ggml_backend_dev_count"), find_symbol("ggml_backend_dev_get")
    name, description = (
        find_symbol("ggml_backend_dev_name"),
        find_symbol("ggml_backend_dev_description"),
    )
    kind, memory = find_symbol("ggml_backend_dev_type"), find_symbol("ggml_backend_dev_memory")
    if not (count and get and name and description and kind and memory):
        return ()
    count.argtypes, count.restype = [], ctypes.c_size_t
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    for text in (name, description):
        text.argtypes, text.restype = [ctypes.c_void_p], ctypes.c_char_p
    kind.argtypes, kind.restype = [ctypes.c_void_p], ctypes.c_int
    size_p = ctypes.POINTER(ctypes.c_size_t)
    memory.argtypes, memory.restype = [ctypes.c_void_p, size_p, size_p], None
    found: list[Device] = []
    for index in range(count()):
        handle = get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(handle, ctypes.byref(free), ctypes.byref(total))
        found.append(
            Device(
                name=(name(handle) or b"").decode("utf-8", "replace"),
                description=(description(handle) or b"").decode("utf-8", "replace"),
                kind=_DEVICE_KINDS.get(kind(handle), "accelerator"),
                free=free.value,
                total=total.value,
            )
        )
    return tuple(found)


def _cpu_features() -> tuple[str, ...]:
    # "CPU : SSE3 = 1 | AVX2 = 1 | ... | CUDA : ARCHS = ..."
    features: list[str] = []
    for part in lib.llama_print_system_info().decode("utf-8", "replace").split("|"):
        name, _, value = part.rpartition("=")
        feature = name.split(":")[-1].strip()
        # `library.start` keeps ggml from AMX.
        if value.strip() == "1" and not feature.startswith("AMX"):
            features.append(feature)
    return tuple(features)
