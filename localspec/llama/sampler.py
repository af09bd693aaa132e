"""The sampler of one answer: llama.cpp's own chain, built from SamplingSettings."""

from __future__ import annotations

import ctypes
import math
import secrets
from collections.abc import Iterable
from typing import Any

from llama_cpp import llama_cpp as lib

from localspec.decoding.distribution import Distribution, SeededDice
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError, SamplerError, UsageError
from localspec.llama.context import Context
from localspec.llama.filters import Candidates, Filters, has_penalties, not_numbers
from localspec.llama.vocabulary import Vocabulary

_VERIFYING = 1
"""Purpose of the dice; the draft's own have another."""


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
        self.dice = SeededDice(self.seed, _VERIFYING)
        """For drawn draft tokens; the chain's own draws do not depend on how often it is thrown."""
        self._vocabulary = vocabulary
        self._chain: Any = None
        self._filters: Filters | None = None
        self._grammar: Any = None
        changes_logits = bool(settings.logit_bias) or has_penalties(settings)
        self._is_argmax = settings.is_greedy and not changes_logits
        if not self._is_argmax:
            self._filters = Filters(vocabulary, settings, n_ctx, seed=self.seed)
            self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
            # The chain owns the filters from here on.
            lib.llama_sampler_chain_add(self._chain, self._filters.handle)
            draw = self._draw_link(settings)
            if not draw:
                self.close()
                raise EngineError("llama.cpp could not build the sampler chain")
            lib.llama_sampler_chain_add(self._chain, draw)
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
            self._candidates = Candidates(vocabulary.n_tokens)

    def accept_prompt(self, tokens: Iterable[int]) -> None:
        """Let penalties look back on the prompt. The grammar begins with the answer."""
        if self._filters is not None and self._filters.looks_back:
            for token in tokens:
                self._filters.accept(token)

    def sample(self, context: Context, row: int) -> int:
        """Draw from output row `row` of the context's last pass.

        Raises SamplerError when no token is left, EngineError when logits are not numbers.
        """
        if self._grammar:
            return self._sample_by_grammar(context, row)
        if self._is_argmax:
            return _argmax(context, row)
        return int(lib.llama_sampler_sample(self._chain, context.handle, context.batch_index(row)))

    def distribution(self, context: Context, row: int) -> Distribution:
        """What `sample` draws from, at settings that draw from a softmax; nothing is accepted.

        Raises SamplerError when no token is left, EngineError when logits are not numbers.
        """
        if self._filters is None:
            raise EngineError("a greedy sampler draws from no distribution")
        return self._filters.distribution(context.logits[row])

    def accept(self, token: int) -> None:
        """`token` was kept without a draw of the chain: penalties look back on it."""
        if self._filters is not None:
            self._filters.accept(token)

    def close(self) -> None:
        for handle in (self._chain, self._grammar):
            if handle:
                lib.llama_sampler_free(handle)
        self._chain = self._grammar = self._filters = None

    def _draw_link(self, settings: SamplingSettings) -> Any:
        """The last link, which draws."""
        if settings.mirostat:
            return self._mirostat(settings)
        if settings.is_greedy:
            return lib.llama_sampler_init_greedy()
        return lib.llama_sampler_init_dist(self.seed)

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
        array = self._candidates.of(logits)
        candidates = self._candidates.data
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
        raise not_numbers()
    return token
