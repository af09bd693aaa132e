"""A `llama_context` that turns texts into vectors: one pass for many, nothing kept between."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as lib

from localspec.errors import EngineError
from localspec.llama.batch import Batch, Outputs, Part
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import FLASH_ATTENTION, KV_TYPES
from localspec.llama.log import NativeLog
from localspec.llama.model import Model
from localspec.llama.native_context import create_context
from localspec.llama.refusal import refusal

POOLING: dict[str, int] = {
    "auto": lib.LLAMA_POOLING_TYPE_UNSPECIFIED,
    "mean": lib.LLAMA_POOLING_TYPE_MEAN,
    "cls": lib.LLAMA_POOLING_TYPE_CLS,
    "last": lib.LLAMA_POOLING_TYPE_LAST,
}
"""How the vectors of a text's tokens become one; `auto` is what the model file says."""
_NAMES = {number: name for name, number in POOLING.items()}


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    n_ctx: int
    """Most tokens of one text."""
    width: int
    """Most tokens of one pass."""
    n_seq_max: int = 32
    """Most texts in one pass."""
    pooling: str = "auto"
    """A key of POOLING."""
    n_threads: int = 1
    kv_type: str = "f16"
    flash_attn: str = "auto"


class EmbeddingContext:
    """Owns a `llama_context` for embeddings. Close it before its model."""

    def __init__(
        self, model: Model, options: EmbeddingOptions, cancel: CancelFlag, log: NativeLog
    ) -> None:
        """Raises EngineError when llama.cpp cannot create the context, with its reason."""
        self._log = log
        self._encodes = model.has_encoder
        params = lib.llama_context_default_params()
        params.n_ctx = max(options.n_ctx, options.width)
        # A text that is read in both directions has to be in one physical pass.
        params.n_batch = params.n_ubatch = options.width
        params.n_seq_max = options.n_seq_max
        params.n_threads = params.n_threads_batch = options.n_threads
        params.type_k = params.type_v = KV_TYPES[options.kv_type]
        params.flash_attn_type = FLASH_ATTENTION[options.flash_attn]
        params.embeddings = True
        params.pooling_type = POOLING[options.pooling]
        self._handle: Any = create_context(
            model,
            params,
            cancel,
            log,
            what=f"a context for embeddings of {options.n_ctx} tokens",
            hint="a smaller --ctx or --ubatch needs less memory",
        )
        self._memory: Any = lib.llama_get_memory(self._handle)
        self._n_seq_max = options.n_seq_max
        self.width = int(lib.llama_n_ubatch(self._handle))
        self.pooling = _NAMES.get(int(lib.llama_pooling_type(self._handle)), "none")
        """A key of POOLING, or `none` for a model that gives a vector for every token."""
        self.n_embd = int(lib.llama_model_n_embd_out(model.handle))
        # Only the last token's vector can be had of a text that was read in pieces.
        in_pieces = bool(self._memory) and self.pooling == "last" and not _reads_both_ways(model)
        self.longest = options.n_ctx if in_pieces else min(options.n_ctx, self.width)
        """Most tokens of one text."""
        self._batch = Batch(self.width)

    def embed(self, texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """(len(texts), n_embd): the pooled vector of each, as the model gives it.

        texts: token ids, none empty and none longer than `longest`.
        Raises Cancelled, EngineError.
        """
        found = np.empty((len(texts), self.n_embd), np.float32)
        for group in _groups([len(text) for text in texts], self.width, self._n_seq_max):
            self._clear()
            if len(texts[group.start]) > self.width:
                self._read_long(texts[group.start])
            else:
                self._pass([Part(texts[i], Outputs.ALL, i - group.start) for i in group], 0)
            for index in group:
                found[index] = self._vector(index - group.start)
        return found

    def close(self) -> None:
        """May be called twice."""
        if self._handle:
            lib.llama_free(self._handle)
            self._handle = None

    def _read_long(self, text: Sequence[int]) -> None:
        for start in range(0, len(text), self.width):
            self._pass([Part(text[start : start + self.width], Outputs.ALL, 0)], start)

    def _pass(self, parts: Sequence[Part], position: int) -> None:
        self._batch.clear()
        for part in parts:
            self._batch.add(part, position)
        run = lib.llama_encode if self._encodes else lib.llama_decode
        code = run(self._handle, self._batch.native())
        if code != 0:
            raise refusal(code, self._batch.n_tokens, self._log)

    def _vector(self, sequence: int) -> npt.NDArray[np.float32]:
        address = lib.llama_get_embeddings_seq(self._handle, sequence)
        if not address:
            raise EngineError("llama.cpp gave no embedding for a text")
        floats = ctypes.cast(address, ctypes.POINTER(ctypes.c_float * self.n_embd))
        return np.ctypeslib.as_array(floats.contents)

    def _clear(self) -> None:
        if self._memory:
            lib.llama_memory_clear(self._memory, False)


def _reads_both_ways(model: Model) -> bool:
    architecture = model.metadata("general.architecture")
    return model.metadata(f"{architecture}.attention.causal") == "false"


def _groups(lengths: Sequence[int], width: int, most: int) -> Iterator[range]:
    """Neighbouring texts that share a pass; one that is wider than a pass is alone."""
    start, used = 0, 0
    for index, length in enumerate(lengths):
        if index > start and (used + length > width or index - start == most):
            yield range(start, index)
            start, used = index, 0
        used += length
    if start < len(lengths):
        yield range(start, len(lengths))
