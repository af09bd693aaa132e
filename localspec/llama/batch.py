"""What one pass evaluates: tokens of one or more sequences, and which of them get logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as lib

from localspec.errors import EngineError


class Outputs(Enum):
    """Which tokens of a pass get a row of logits."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Part:
    """The tokens one sequence adds in a pass."""

    tokens: Sequence[int]
    outputs: Outputs
    sequence: int = 0

    @property
    def n_outputs(self) -> int:
        """Rows of logits it gets."""
        if self.outputs is Outputs.ALL:
            return len(self.tokens)
        return 1 if self.outputs is Outputs.LAST and len(self.tokens) else 0


class Batch:
    """A `llama_batch` over numpy arrays of ours: no Python loop over tokens, nothing to free."""

    def __init__(self, n_batch: int) -> None:
        self._token = np.zeros(n_batch, np.int32)
        self._pos = np.zeros(n_batch, np.int32)
        self._sequence = np.zeros(n_batch, np.int32)
        self._outputs = np.zeros(n_batch, np.int8)
        self._positions = np.arange(n_batch, dtype=np.int32)
        self._one_sequence = np.ones(n_batch, np.int32)
        # Each token's list of sequence ids has one entry, and lies in `_sequence`.
        self._lists = self._sequence.ctypes.data + np.arange(n_batch, dtype=np.uintp) * 4
        self._native: Any = lib.llama_batch()
        for field, array in (
            ("token", self._token),
            ("pos", self._pos),
            ("n_seq_id", self._one_sequence),
            ("seq_id", self._lists),
            ("logits", self._outputs),
        ):
            kind = type(getattr(self._native, field))
            setattr(self._native, field, array.ctypes.data_as(kind))
        self.n_tokens = 0
        self.n_outputs = 0

    def clear(self) -> None:
        self.n_tokens = self.n_outputs = 0

    def add(self, part: Part, position: int) -> None:
        start, count = self.n_tokens, len(part.tokens)
        end = start + count
        if end > len(self._token):
            raise EngineError(f"a pass over {end} tokens is wider than {len(self._token)}")
        if count == 1:
            # A round of plain decoding: one store for each field, and no views.
            self._token[start] = part.tokens[0]
            self._pos[start] = position
            self._sequence[start] = part.sequence
            self._outputs[start] = part.outputs is not Outputs.NONE
            self.n_outputs += part.n_outputs
            self.n_tokens = end
            return
        self._token[start:end] = part.tokens
        np.add(self._positions[:count], position, out=self._pos[start:end])
        self._sequence[start:end] = part.sequence
        self._outputs[start:end] = part.outputs is Outputs.ALL
        if part.outputs is Outputs.ALL:
            self.n_outputs += count
        elif part.outputs is Outputs.LAST and count:
            self._outputs[end - 1] = 1
            self.n_outputs += 1
        self.n_tokens = end

    def index_of(self, row: int) -> int:
        if self.n_outputs == self.n_tokens:
            return row
        return int(np.flatnonzero(self._outputs[: self.n_tokens])[row])

    def native(self) -> Any:
        self._native.n_tokens = self.n_tokens
        return self._native
