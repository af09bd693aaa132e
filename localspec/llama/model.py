"""One loaded GGUF model: its weights, its vocabulary, what kind of memory it needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_cpp import llama_cpp as lib

from localspec.errors import BadModelFile, Cancelled
from localspec.llama.log import NativeLog
from localspec.llama.offload import set_offload
from localspec.llama.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class LoadOptions:
    gpu_layers: int | None = None
    """Layers on GPUs, the output matrix counted as one more; None is all of them."""
    tensor_split: tuple[float, ...] = ()
    """Shares of the layers by GPU; empty goes by free memory."""
    experts_on_cpu: int = 0
    """Layers, from the first, whose experts stay in host memory."""
    use_mmap: bool = True
    no_alloc: bool = False
    """Read the header and plan memory, but allocate nothing (the probe)."""
    vocab_only: bool = False


class Model:
    """Owns a `llama_model`. Close contexts before their model."""

    def __init__(
        self,
        path: Path,
        options: LoadOptions,
        log: NativeLog,
        on_progress: Callable[[float], bool] | None = None,
    ) -> None:
        """Load `path`. `on_progress` gets 0.0 to 1.0 and answers whether to go on.

        Raises BadModelFile when llama.cpp refuses the file, with its reason; Cancelled when
        `on_progress` said no.
        """
        self.path = path
        cancelled = False

        def progress(fraction: float, _data: Any) -> bool:
            nonlocal cancelled
            go_on = on_progress is None or on_progress(fraction)
            cancelled = not go_on
            return go_on

        params = lib.llama_model_default_params()
        kept = set_offload(
            params,
            gpu_layers=options.gpu_layers,
            tensor_split=options.tensor_split,
            experts_on_cpu=options.experts_on_cpu,
        )
        params.load_mode = (
            lib.LLAMA_LOAD_MODE_AUTO if options.use_mmap else lib.LLAMA_LOAD_MODE_NONE
        )
        params.no_alloc = options.no_alloc
        params.vocab_only = options.vocab_only
        callback = lib.llama_progress_callback(progress)
        params.progress_callback = callback
        log.clear()
        self._handle: Any = lib.llama_model_load_from_file(str(path).encode(), params)
        del kept
        if not self._handle:
            if cancelled:
                raise Cancelled("loading was cancelled")
            reason = log.reason() or "llama.cpp gave no reason"
            raise BadModelFile(
                f"llama.cpp cannot load {path}: {_shorten(reason)}",
                hint="a newer llama-cpp-python may know this model; localspec doctor shows yours",
                path=str(path),
            )
        self.vocabulary = Vocabulary(lib.llama_model_get_vocab(self._handle))

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def n_ctx_train(self) -> int:
        return int(lib.llama_model_n_ctx_train(self._handle))

    @property
    def n_layer(self) -> int:
        return int(lib.llama_model_n_layer(self._handle))

    @property
    def n_swa(self) -> int:
        """Width of the sliding window in tokens; 0 for a model without one."""
        return int(lib.llama_model_n_swa(self._handle))

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return int(lib.llama_model_size(self._handle))

    @property
    def has_recurrent_state(self) -> bool:
        """Recurrent and hybrid models: memory that cannot simply be cut."""
        return bool(
            lib.llama_model_is_recurrent(self._handle) or lib.llama_model_is_hybrid(self._handle)
        )

    @property
    def has_encoder(self) -> bool:
        return bool(lib.llama_model_has_encoder(self._handle))

    @property
    def has_decoder(self) -> bool:
        return bool(lib.llama_model_has_decoder(self._handle))

    @property
    def is_diffusion(self) -> bool:
        return bool(lib.llama_model_is_diffusion(self._handle))

    @property
    def description(self) -> str:
        """llama.cpp's own line: `llama 135M Q4_1`."""
        buffer = ctypes.create_string_buffer(256)
        lib.llama_model_desc(self._handle, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def metadata(self, key: str) -> str | None:
        """A scalar of the header as text; None when it has no such key."""
        length = lib.llama_model_meta_val_str(self._handle, key.encode(), None, 0)
        if length < 0:
            return None
        buffer = ctypes.create_string_buffer(length + 1)
        lib.llama_model_meta_val_str(self._handle, key.encode(), buffer, length + 1)
        return buffer.value.decode("utf-8", "replace")

    def close(self) -> None:
        if self._handle:
            lib.llama_model_free(self._handle)
            self._handle = None


def _shorten(line: str) -> str:
    # "llama_model_load: error loading model: missing tensor 'x'" -> "missing tensor 'x'"
    return line.rsplit("error loading model: ", 1)[-1].strip()
