"""One `llama_context`: token sequences in memory, passes over them, their logits, rollback."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as lib

from localspec.decoding.prefix import common_prefix
from localspec.errors import EngineError
from localspec.llama.batch import Batch, Outputs, Part
from localspec.llama.cancel import CancelFlag
from localspec.llama.log import NativeLog
from localspec.llama.model import Model
from localspec.llama.native_context import create_context
from localspec.llama.refusal import refusal

KV_TYPES: dict[str, int] = {
    "f32": lib.GGML_TYPE_F32,
    "f16": lib.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16; the bindings leave it out
    "q8_0": lib.GGML_TYPE_Q8_0,
    "q5_1": lib.GGML_TYPE_Q5_1,
    "q5_0": lib.GGML_TYPE_Q5_0,
    "q4_1": lib.GGML_TYPE_Q4_1,
    "q4_0": lib.GGML_TYPE_Q4_0,
    "iq4_nl": lib.GGML_TYPE_IQ4_NL,
}
FLASH_ATTENTION: dict[str, int] = {
    "auto": lib.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": lib.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": lib.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
# llama.h: LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY | LLAMA_STATE_SEQ_FLAGS_ON_DEVICE
_STATE_FLAGS = 1 | 2

# As the bindings' llama_get_logits, but it gives a plain address: no pointer object every round.
_logits_address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("llama_get_logits", lib._lib))


class Rollback(Enum):
    """How the memory of this model goes back to an earlier token."""

    CUT = "cut"
    """Attention only: any tail can be removed."""
    ROWS = "rows"
    """Recurrent state with rollback rows (`n_rs_seq`): the tail of the last pass can be removed."""
    RESTORE = "restore"
    """Recurrent state without rows: back to the last mark, then kept tokens are decoded again."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    n_ctx: int
    """Tokens of each sequence."""
    n_batch: int = 2048
    n_ubatch: int = 512
    n_seq_max: int = 1
    n_outputs_max: int = 1
    """Rows of logits one pass may ask for, all sequences together."""
    rollback_rows: int = 0
    """Most tokens to roll back at once with a recurrent state; 0 uses saved states instead."""
    n_threads: int = 1
    n_threads_batch: int = 1
    kv_type_k: str = "f16"
    kv_type_v: str = "f16"
    flash_attn: str = "auto"


@dataclass(slots=True)
class _Mark:
    n_tokens: int
    state: Any
    size: int


class Context:
    """Owns a `llama_context` and knows which tokens each of its sequences holds.

    Close it before its model.
    """

    def __init__(
        self, model: Model, options: ContextOptions, cancel: CancelFlag, log: NativeLog
    ) -> None:
        """Raises EngineError when llama.cpp cannot create the context, with its reason."""
        self.model = model
        self._cancel = cancel
        self._log = log
        params = lib.llama_context_default_params()
        params.n_ctx = options.n_ctx * options.n_seq_max
        params.n_batch = min(options.n_batch, options.n_ctx)
        params.n_ubatch = min(options.n_ubatch, params.n_batch)
        params.n_seq_max = options.n_seq_max
        params.n_rs_seq = options.rollback_rows if model.has_recurrent_state else 0
        params.n_outputs_max = min(options.n_outputs_max, params.n_batch)
        params.n_threads = options.n_threads
        params.n_threads_batch = options.n_threads_batch
        params.type_k = KV_TYPES[options.kv_type_k]
        params.type_v = KV_TYPES[options.kv_type_v]
        params.flash_attn_type = FLASH_ATTENTION[options.flash_attn]
        self._handle: Any = create_context(
            model,
            params,
            cancel,
            log,
            what=f"a context of {options.n_ctx} tokens",
            hint="a smaller --ctx or --kv-type q8_0 needs less memory",
            n_ctx=options.n_ctx,
        )
        self._memory: Any = lib.llama_get_memory(self._handle)
        # Sequences share one cache, so that they can share a pass; each keeps to its part.
        self.n_ctx = int(lib.llama_n_ctx(self._handle)) // options.n_seq_max
        self.n_batch = int(lib.llama_n_batch(self._handle))
        self.n_outputs_max = int(params.n_outputs_max)
        self.n_vocab = model.vocabulary.n_tokens
        self.rollback_rows = int(lib.llama_n_rs_seq(self._handle))
        if not model.has_recurrent_state:
            self.rollback = Rollback.CUT
        else:
            self.rollback = Rollback.ROWS if self.rollback_rows else Rollback.RESTORE
        self._tokens: list[list[int]] = [[] for _ in range(options.n_seq_max)]
        self._marks: list[_Mark | None] = [None] * options.n_seq_max
        self._batch = Batch(self.n_batch)
        self._rows: npt.NDArray[np.float32] | None = None
        self._views: dict[int, npt.NDArray[np.float32]] = {}
        self._views_address = 0

    @property
    def handle(self) -> Any:
        return self._handle

    def tokens(self, sequence: int = 0) -> Sequence[int]:
        """What the sequence holds. Read it, do not keep or change it."""
        return self._tokens[sequence]

    def n_tokens(self, sequence: int = 0) -> int:
        return len(self._tokens[sequence])

    def decode(self, *parts: Part) -> None:
        """One pass over at most n_batch tokens, all sequences together; llama.cpp splits it by
        n_ubatch. Rows of `logits` follow the order of parts and of their tokens.

        Raises Cancelled when the flag was set, EngineError for every other refusal; memory is then
        as it was before.
        """
        batch = self._batch
        batch.clear()
        for part in parts:
            batch.add(part, len(self._tokens[part.sequence]))
        code = lib.llama_decode(self._handle, batch.native())
        if code != 0:
            self._undo(parts)
            raise refusal(code, batch.n_tokens, self._log)
        for part in parts:
            self._tokens[part.sequence].extend(part.tokens)
        self._rows = None

    def evaluate(self, tokens: Sequence[int], outputs: Outputs, sequence: int = 0) -> None:
        """Append any number of tokens to one sequence, split by n_batch.

        With Outputs.ALL they must fit into one pass, since a pass replaces the rows of the last.
        """
        if outputs is Outputs.ALL or len(tokens) <= self.n_batch:
            self.decode(Part(tokens, outputs, sequence))
            return
        for start in range(0, len(tokens), self.n_batch):
            chunk = tokens[start : start + self.n_batch]
            is_last = start + len(chunk) == len(tokens)
            self.decode(Part(chunk, outputs if is_last else Outputs.NONE, sequence))

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """(rows of the last pass, n_vocab), a view of llama.cpp's own buffer: valid until the next
        pass. No copy is made."""
        if self._rows is None:
            address = _logits_address(self._handle)
            if not address:
                raise EngineError("llama.cpp has no logits for the last pass")
            if address != self._views_address:
                self._views_address = address
                self._views.clear()
            # llama.cpp's buffer stays where it is, so the views over it are made once.
            rows = self._batch.n_outputs
            self._rows = self._views.get(rows)
            if self._rows is None:
                floats = (ctypes.c_float * (rows * self.n_vocab)).from_address(address)
                view = np.ctypeslib.as_array(floats).reshape(rows, self.n_vocab)
                self._rows = self._views[rows] = view
        return self._rows

    def batch_index(self, row: int) -> int:
        """The place in the last pass of the token that output row `row` belongs to."""
        return self._batch.index_of(row)

    def mark(self, sequence: int = 0) -> None:
        """Remember this place, where memory cannot simply be cut: rollback goes no further back.

        About 20 microseconds; nothing at all for attention-only models and rollback rows.
        """
        if self.rollback is not Rollback.RESTORE:
            return
        size = int(lib.llama_state_seq_get_size_ext(self._handle, sequence, _STATE_FLAGS))
        state = (ctypes.c_uint8 * size)()
        written = lib.llama_state_seq_get_data_ext(
            self._handle, state, size, sequence, _STATE_FLAGS
        )
        if written != size or size == 0:
            raise EngineError(f"llama.cpp saved {written} of {size} bytes of the sequence's state")
        self._marks[sequence] = _Mark(len(self._tokens[sequence]), state, size)

    def rollback_to(self, n_tokens: int, sequence: int = 0) -> None:
        """Keep the first `n_tokens` of the sequence; a replayed pass may be needed (RESTORE).

        Raises EngineError when memory cannot go back that far; it is then unchanged.
        """
        held = self._tokens[sequence]
        if n_tokens >= len(held):
            return
        if self.rollback is Rollback.RESTORE and n_tokens > 0:
            self._restore(n_tokens, sequence)
            return
        if not self._can_cut(n_tokens, sequence) or not lib.llama_memory_seq_rm(
            self._memory, sequence, n_tokens, -1
        ):
            raise EngineError(
                f"memory cannot go back from {len(held)} to {n_tokens} tokens",
                n_tokens=n_tokens,
            )
        del held[n_tokens:]
        self._forget_mark_after(n_tokens, sequence)

    def goes_back(self, sequence: int = 0) -> bool:
        """Whether rollback works here, tried on an empty sequence; it is empty afterwards.

        Attention-only memory always does. Recurrent states of some models can be neither cut nor
        restored, and llama.cpp says so only when it is asked to.
        """
        if self.rollback is Rollback.CUT:
            return True
        token = self.model.vocabulary.bos or 0
        try:
            self.evaluate([token], Outputs.NONE, sequence)
            self.mark(sequence)
            self.evaluate([token, token], Outputs.NONE, sequence)
            self.rollback_to(2, sequence)
            newest = int(lib.llama_memory_seq_pos_max(self._memory, sequence))
        except EngineError:
            return False
        finally:
            self.clear(sequence)
        return newest == 1

    def keep_prefix(self, tokens: Sequence[int], sequence: int = 0) -> int:
        """Keep as much of the sequence as `tokens` begins with; how many tokens that is.

        Memory that cannot go back there is cleared: 0.
        """
        common = common_prefix(self._tokens[sequence], tokens)
        try:
            self.rollback_to(common, sequence)
        except EngineError:
            self.clear(sequence)
        return len(self._tokens[sequence])

    def clear(self, sequence: int = 0) -> None:
        """Forget the sequence. Removing a whole sequence cannot fail; if it does, say so."""
        if not lib.llama_memory_seq_rm(self._memory, sequence, -1, -1):
            raise EngineError(f"llama.cpp cannot clear sequence {sequence}")
        self._tokens[sequence].clear()
        self._marks[sequence] = None

    def close(self) -> None:
        if self._handle:
            self._rows = None
            self._views.clear()
            lib.llama_free(self._handle)
            self._handle = None

    def _can_cut(self, n_tokens: int, sequence: int) -> bool:
        # A sliding window overwrites what lies before it: tokens at n_tokens would look for cells
        # that are gone.
        n_swa = self.model.n_swa
        if n_swa == 0 or n_tokens == 0:
            return True
        oldest = int(lib.llama_memory_seq_pos_min(self._memory, sequence))
        return oldest <= max(0, n_tokens - n_swa)

    def _restore(self, n_tokens: int, sequence: int) -> None:
        mark = self._marks[sequence]
        if mark is None or mark.n_tokens > n_tokens:
            raise EngineError(
                f"memory cannot go back to {n_tokens} tokens: no state was saved there",
                n_tokens=n_tokens,
            )
        read = lib.llama_state_seq_set_data_ext(
            self._handle, mark.state, mark.size, sequence, _STATE_FLAGS
        )
        # The state brings back the recurrent layers only; attention cells of a hybrid model stay
        # behind until they are removed, and the logits would be wrong.
        if read != mark.size or not lib.llama_memory_seq_rm(
            self._memory, sequence, mark.n_tokens, -1
        ):
            raise EngineError("llama.cpp could not restore the saved state of the sequence")
        held = self._tokens[sequence]
        kept = held[mark.n_tokens : n_tokens]
        del held[mark.n_tokens :]
        if kept:
            self.evaluate(kept, Outputs.NONE, sequence)

    def _forget_mark_after(self, n_tokens: int, sequence: int) -> None:
        mark = self._marks[sequence]
        if mark is not None and mark.n_tokens > n_tokens:
            self._marks[sequence] = None

    def _undo(self, parts: Iterable[Part]) -> None:
        # A refused pass may have put some of its tokens into memory.
        for part in parts:
            held = len(self._tokens[part.sequence])
            if not lib.llama_memory_seq_rm(self._memory, part.sequence, held, -1):
                self.clear(part.sequence)
