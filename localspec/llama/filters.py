"""The filters of a sampler chain: everything between the logits and the last draw."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as lib

from localspec.decoding.distribution import Distribution
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError, SamplerError, UsageError
from localspec.llama.vocabulary import Vocabulary

# llama_token_data of llama.h: id, logit, p
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Candidates:
    """A row of logits as llama.cpp's samplers take it, in memory that is used again and again."""

    def __init__(self, n_vocab: int) -> None:
        self._n_vocab = n_vocab
        self.data = np.empty(0, CANDIDATE)

    def of(self, logits: npt.NDArray[np.float32]) -> Any:
        """A `llama_token_data_array` over `logits`; valid until the next call."""
        if not len(self.data):
            # Most samplers never need it.
            self._ids = np.arange(self._n_vocab, dtype=np.int32)
            self.data = np.empty(self._n_vocab, CANDIDATE)
        data = self.data
        data["id"], data["logit"], data["p"] = self._ids, logits, 0.0
        return lib.llama_token_data_array(
            data.ctypes.data_as(lib.llama_token_data_p), len(data), -1, False
        )


class Filters:
    """Logit bias, penalties, top-k and its like, temperature: a chain of its own that another
    chain may hold. Close it unless another chain does."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: SamplingSettings,
        n_ctx: int,
        *,
        seed: int,
        n_tokens: int | None = None,
    ) -> None:
        """n_ctx: what a look back of -1 tokens means. n_tokens: ids from here on are never left;
        None allows the whole vocabulary.

        Raises UsageError where a bias names an unknown token.
        """
        self.n_tokens = vocabulary.n_tokens if n_tokens is None else n_tokens
        self.looks_back = has_penalties(settings)
        self.look_back = _look_back(settings, n_ctx)
        """Most tokens that penalties look back on."""
        self._vocabulary = vocabulary
        self._n_ctx = n_ctx
        self._candidates = Candidates(self.n_tokens)
        self.handle: Any = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        try:
            for link in self._links(settings, seed):
                if not link:
                    raise EngineError("llama.cpp could not build the sampler chain")
                lib.llama_sampler_chain_add(self.handle, link)
        except BaseException:
            self.close()
            raise

    def accept(self, token: int) -> None:
        """Penalties look back on `token` from now on."""
        if self.looks_back:
            lib.llama_sampler_accept(self.handle, token)

    def forget(self) -> None:
        """Penalties begin again with nothing to look back on."""
        lib.llama_sampler_reset(self.handle)

    def distribution(self, logits: npt.NDArray[np.float32]) -> Distribution:
        """What the filters leave of a row of logits, as probabilities.

        Raises EngineError when logits are not numbers, SamplerError when no token is left.
        """
        logits = logits[: self.n_tokens]
        if math.isnan(logits.max()):
            raise not_numbers()
        array = self._candidates.of(logits)
        lib.llama_sampler_apply(self.handle, ctypes.byref(array))
        left = self._candidates.data[: array.size]
        scores = left["logit"].astype(np.float64)
        highest = scores.max() if len(scores) else -math.inf
        if not math.isfinite(highest):
            raise SamplerError("the sampler settings forbid every token here")
        weights = np.exp(scores - highest)
        total = weights.sum()
        possible = weights > 0.0
        if possible.all():
            return Distribution(left["id"].copy(), weights / total)
        return Distribution(left["id"][possible], weights[possible] / total)

    def branch(self) -> Filters:
        """Filters that look back on the same tokens, and from here on their own way."""
        branch = copy(self)
        branch.handle = lib.llama_sampler_clone(self.handle)
        if not branch.handle:
            raise EngineError("llama.cpp could not copy the sampler chain")
        return branch

    def close(self) -> None:
        """May be called twice."""
        if self.handle:
            lib.llama_sampler_free(self.handle)
            self.handle = None

    def _links(self, settings: SamplingSettings, seed: int) -> Iterable[Any]:
        """In llama.cpp's default order (common/sampling.cpp, common_sampler_init)."""
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
                _or_all(settings.repeat_last_n, self._n_ctx),
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
                _or_all(settings.dry_penalty_last_n, self._n_ctx),
                array,
                len(breakers),
            )
        if settings.is_greedy:
            return
        if not settings.mirostat:
            yield from _cuts(settings, seed)
        yield lib.llama_sampler_init_temp(settings.temp)


def _cuts(settings: SamplingSettings, seed: int) -> Iterable[Any]:
    """What leaves fewer tokens to choose from."""
    if settings.top_k > 0:
        yield lib.llama_sampler_init_top_k(settings.top_k)
    if settings.typical_p < 1:
        yield lib.llama_sampler_init_typical(settings.typical_p, 1)
    if settings.top_p < 1:
        yield lib.llama_sampler_init_top_p(settings.top_p, 1)
    if settings.min_p > 0:
        yield lib.llama_sampler_init_min_p(settings.min_p, 1)
    if settings.xtc_probability > 0:
        yield lib.llama_sampler_init_xtc(settings.xtc_probability, settings.xtc_threshold, 1, seed)


def not_numbers() -> EngineError:
    return EngineError(
        "the model's logits are not numbers",
        hint="the file may be damaged, or its type overflows on this device",
    )


def has_penalties(settings: SamplingSettings) -> bool:
    return _penalises_repeats(settings) or settings.dry_multiplier > 0


def _penalises_repeats(settings: SamplingSettings) -> bool:
    return settings.repeat_last_n != 0 and (
        settings.repeat_penalty != 1.0
        or settings.frequency_penalty != 0.0
        or settings.presence_penalty != 0.0
    )


def _look_back(settings: SamplingSettings, n_ctx: int) -> int:
    most = 0
    if _penalises_repeats(settings):
        most = _or_all(settings.repeat_last_n, n_ctx)
    if settings.dry_multiplier > 0:
        most = max(most, _or_all(settings.dry_penalty_last_n, n_ctx))
    return most


def _or_all(tokens: int, n_ctx: int) -> int:
    return n_ctx if tokens < 0 else tokens
