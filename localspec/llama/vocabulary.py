"""Text to tokens and tokens to bytes, by the model's own tokenizer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from llama_cpp import llama_cpp as lib

from localspec.errors import EngineError, UsageError

_NO_TOKEN = -1


class Vocabulary:
    """Borrowed from a model: valid while the model is open."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.n_tokens = int(lib.llama_vocab_n_tokens(handle))
        self._pieces: dict[int, bytes] = {}
        self._written_out: frozenset[str] = frozenset()
        self._ends: dict[int, bool] = {}
        self._buffer = ctypes.create_string_buffer(256)

    @property
    def adds_bos(self) -> bool:
        return bool(lib.llama_vocab_get_add_bos(self.handle))

    @property
    def bos(self) -> int | None:
        return _known(lib.llama_vocab_bos(self.handle))

    @property
    def eos(self) -> int | None:
        return _known(lib.llama_vocab_eos(self.handle))

    def text_of(self, token: int | None) -> str:
        """The vocabulary's text of a token, as templates want it; empty for None."""
        if token is None:
            return ""
        return (lib.llama_vocab_get_text(self.handle, token) or b"").decode("utf-8", "replace")

    def is_end(self, token: int) -> bool:
        """Whether the model ends its answer with `token` (`llama_vocab_is_eog`)."""
        known = self._ends.get(token)
        if known is None:
            known = self._ends[token] = bool(lib.llama_vocab_is_eog(self.handle, token))
        return known

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`. `add_special` lets the model add BOS or EOS where it wants them;
        `parse_special` turns `<|im_start|>` and its like into their one token.

        Raises UsageError for text that cannot be encoded.
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(
                "the prompt is not UTF-8 text", hint="only text can be answered; convert it first"
            ) from error
        room = len(data) + 8
        tokens = (lib.llama_token * room)()
        count = lib.llama_tokenize(
            self.handle, data, len(data), tokens, room, add_special, parse_special
        )
        if count < 0:
            # The tokenizer asks for more room; a second call with it cannot ask again.
            room = -count
            tokens = (lib.llama_token * room)()
            count = lib.llama_tokenize(
                self.handle, data, len(data), tokens, room, add_special, parse_special
            )
        if count < 0:
            raise EngineError(f"llama.cpp could not tokenise {len(data)} bytes of text")
        return list(tokens[:count])

    def write_out(self, texts: Iterable[str]) -> None:
        """Control tokens of these texts have bytes from now on; others stay empty."""
        self._written_out = frozenset(texts)
        self._pieces.clear()

    def piece(self, token: int) -> bytes:
        """The bytes of one token; control tokens are empty. May end inside a UTF-8 character."""
        known = self._pieces.get(token)
        if known is None:
            special = bool(self._written_out) and self.text_of(token) in self._written_out
            known = self._pieces[token] = self._read_piece(token, special)
        return known

    def pieces(self, tokens: Iterable[int]) -> bytes:
        return b"".join(map(self.piece, tokens))

    def _read_piece(self, token: int, special: bool) -> bytes:
        if not 0 <= token < self.n_tokens:
            raise UsageError(f"token {token} is not in a vocabulary of {self.n_tokens}")
        length = lib.llama_token_to_piece(
            self.handle, token, self._buffer, len(self._buffer), 0, special
        )
        if length < 0:
            self._buffer = ctypes.create_string_buffer(-length)
            length = lib.llama_token_to_piece(self.handle, token, self._buffer, -length, 0, special)
        return self._buffer.raw[:length]


def _known(token: int) -> int | None:
    return None if token == _NO_TOKEN else int(token)
