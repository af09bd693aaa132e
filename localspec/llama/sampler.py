"""The sampler of one answer: llama.cpp's own chain, built from SamplingSettings."""

from __future__ import annotations

import ctypes
import math
import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as lib

from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError, SamplerError, UsageError
from localspec.llama.context import Context
from localspec.llama.vocabulary import Vocabulary

# llama_token_data of llama.h: id, logit, p
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Sampler:
    """Draws tokens from rows of a context's logits; remembers what it drew (penalties, grammar).

    Greedy without penalties is an argmax over the row. A grammar is checked after the draw, and
    applied to the whole vocabulary only when the draw breaks it (common/sampling.cpp,
    common_sampler_sample): most draws obey it, and the check of one token is cheap.
    """

    def __init__(self, vocabulary: Vocabulary, settings: SamplingSettings, n_ctx: int) -> None:
        """`n_ctx` is what a look back of -1 tokens means.

        Raises UsageError for values out of range and for a grammar that does not parse.
        """
        settings.check()
        self.seed = secrets.randbits(32) if settings.seed is None else settings.seed
        self._vocabulary = vocabulary
        self._n_ctx = n_ctx
        self._chain: Any = None
        self._grammar: Any = None
        self._candidates = np.empty(0, _CANDIDATE)
        changes_logits = bool(settings.logit_bias) or _has_penalties(settings)
        self._is_argmax = settings.is_greedy and not changes_logits
        self._looks_back = _has_penalties(settings)
        if not self._is_argmax:
            self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
            for link in self._links(settings):
                if not link:
                    self.close()
                    raise EngineError("llama.cpp could not build the sampler chain")
                lib.llama_sampler_chain_add(self._chain, link)
        if settings.grammar:
            self._grammar = lib.llama_sampler_init_grammar(
                vocabulary.handle, settings.grammar.encode(), settings.grammar_root.encode()
            )
            if not self._grammar:
                self.close()
                raise UsageError(
                    f"the grammar does not parse, or has no rule {settings.grammar_root!r}",
                    hint="it must be GBNF; --debug shows llama.cpp's own message",
                )
            self._candidates = np.empty(vocabulary.n_tokens, _CANDIDATE)
            self._ids = np.arange(vocabulary.n_tokens, dtype=np.int32)

    def accept_prompt(self, tokens: Iterable[int]) -> None:
        """Let penalties look back on the prompt. The grammar begins with the answer."""
        if self._looks_back:
            for token in tokens:
                lib.llama_sampler_accept(self._chain, token)

    def sample(self, context: Context, row: int) -> int:
        """Draw from output row `row` of the context's last pass.

        Raises SamplerError when no token is left, EngineError when logits are not numbers.
        """
        if self._grammar:
            return self._sample_by_grammar(context, row)
        if self._is_argmax:
            return _argmax(context, row)
        return int(lib.llama_sampler_sample(self._chain, context.handle, context.batch_index(row)))

    def close(self) -> None:
        for handle in (self._chain, self._grammar):
            if handle:
                lib.llama_sampler_free(handle)
        self._chain = self._grammar = None

    def _links(self, settings: SamplingSettings) -> Iterable[Any]:
        """The chain in llama.cpp's default order (common/sampling.cpp, common_sampler_init)."""
        n_vocab = self._vocabulary.n_tokens
        if settings.logit_bias:
            biases = (lib.llama_logit_bias * len(settings.logit_bias))()
            for entry, (token, bias) in zip(biases, settings.logit_bias, strict=True):
                if not 0 <= token < n_vocab:
                    raise UsageError(f"logit bias names token {token} of {n_vocab}")
                entry.token, entry.bias = token, bias
            yield lib.llama_sampler_init_logit_bias(n_vocab, len(biases), biases)
        if _penalises_repeats(settings):
            yield lib.llama_sampler_init_penalties(
                n_vocab,
                self._look_back(settings.repeat_last_n),
                settings.repeat_penalty,
                settings.frequency_penalty,
                settings.presence_penalty,
            )
        if settings.dry_multiplier > 0:
            breakers = [text.encode() for text in settings.dry_sequence_breakers]
            array = (ctypes.c_char_p * len(breakers))(*breakers)
            yield lib.llama_sampler_init_dry(
                self._vocabulary.handle,
                settings.dry_multiplier,
                settings.dry_base,
                settings.dry_allowed_length,
                self._look_back(settings.dry_penalty_last_n),
                array,
                len(breakers),
            )
        if settings.mirostat:
            yield lib.llama_sampler_init_temp(settings.temp)
            yield self._mirostat(settings)
            return
        if settings.is_greedy:
            yield lib.llama_sampler_init_greedy()
            return
        if settings.top_k > 0:
            yield lib.llama_sampler_init_top_k(settings.top_k)
        if settings.typical_p < 1:
            yield lib.llama_sampler_init_typical(settings.typical_p, 1)
        if settings.top_p < 1:
            yield lib.llama_sampler_init_top_p(settings.top_p, 1)
        if settings.min_p > 0:
            yield lib.llama_sampler_init_min_p(settings.min_p, 1)
        if settings.xtc_probability > 0:
            yield lib.llama_sampler_init_xtc(
                settings.xtc_probability, settings.xtc_threshold, 1, self.seed
            )
        yield lib.llama_sampler_init_temp(settings.temp)
        yield lib.llama_sampler_init_dist(self.seed)

    def _look_back(self, tokens: int) -> int:
        return self._n_ctx if tokens < 0 else tokens

    def _mirostat(self, settings: SamplingSettings) -> Any:
        if settings.mirostat == 1:
            return lib.llama_sampler_init_mirostat(
                self._vocabulary.n_tokens,
                self.seed,
                settings.mirostat_tau,
                settings.mirostat_eta,
                100,
            )
        return lib.llama_sampler_init_mirostat_v2(
            self.seed, settings.mirostat_tau, settings.mirostat_eta
        )

    def _sample_by_grammar(self, context: Context, row: int) -> int:
        logits = context.logits[row]
        token = _argmax(context, row) if self._is_argmax else self._draw(logits, obey=False)
        if not self._obeys(token):
            token = self._draw(logits, obey=True)
            # A bias may forbid all that the grammar allows; llama.cpp aborts the process when a
            # grammar is told a token that breaks it.
            if not self._obeys(token):
                raise _dead_end()
        lib.llama_sampler_accept(self._grammar, token)
        if self._chain:
            lib.llama_sampler_accept(self._chain, token)
        return token

    def _obeys(self, token: int) -> bool:
        one = lib.llama_token_data(token, 1.0, 0.0)
        array = lib.llama_token_data_array(ctypes.pointer(one), 1, -1, False)
        lib.llama_sampler_apply(self._grammar, ctypes.byref(array))
        return bool(one.logit != -math.inf)

    def _draw(self, logits: Any, *, obey: bool) -> int:
        """One draw of the chain over the whole vocabulary, after the grammar if `obey`."""
        candidates = self._candidates
        candidates["id"], candidates["logit"], candidates["p"] = self._ids, logits, 0.0
        array = lib.llama_token_data_array(
            candidates.ctypes.data_as(lib.llama_token_data_p), len(candidates), -1, False
        )
        if obey:
            lib.llama_sampler_apply(self._grammar, ctypes.byref(array))
            best = int(candidates["logit"].argmax())
            if candidates["logit"][best] == -math.inf:
                raise _dead_end()
            if self._is_argmax:
                return int(candidates["id"][best])
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        if not 0 <= array.selected < array.size:
            raise SamplerError("the sampler chain chose no token")
        return int(array.data[array.selected].id)


def _dead_end() -> SamplerError:
    return SamplerError(
        "the grammar allows none of the model's tokens here",
        hint="it must let the answer end, and its characters must exist as tokens",
    )


def _argmax(context: Context, row: int) -> int:
    logits = context.logits[row]
    token = int(logits.argmax())
    if math.isnan(logits[token]):
        raise EngineError(
            "the model's logits are not numbers",
            hint="the file may be damaged, or its type overflows on this device",
        )
    return token


def _penalises_repeats(settings: SamplingSettings) -> bool:
    return settings.repeat_last_n != 0 and (
        settings.repeat_penalty != 1.0
        or settings.frequency_penalty != 0.0
        or settings.presence_penalty != 0.0
    )


def _has_penalties(settings: SamplingSettings) -> bool:
    return _penalises_repeats(settings) or settings.dry_multiplier > 0
