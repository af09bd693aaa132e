"""How a draft model draws its tokens: by the settings of the answer that they are meant for."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from localspec.decoding.distribution import Distribution, SeededDice
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError, SamplerError
from localspec.llama.context import Context
from localspec.llama.filters import Filters

_DRAFTING = 2
"""Purpose of the dice, so that they are independent of those that verify."""


class DraftSampling:
    """`decoding.protocols.DraftSampler` over the newest row of a draft's context.

    The same filters as the target's, penalties included, over the draft's own logits: the nearer
    the two distributions, the more is accepted.
    """

    def __init__(self, context: Context, settings: SamplingSettings, n_vocab: int) -> None:
        """n_vocab: ids from here on are never drawn. Raises UsageError for values out of range."""
        vocabulary = context.model.vocabulary
        n_tokens = min(n_vocab, vocabulary.n_tokens)
        known = tuple(bias for bias in settings.logit_bias if 0 <= bias[0] < n_tokens)
        seed = secrets.randbits(32) if settings.seed is None else settings.seed
        self._context = context
        self._filters = Filters(
            vocabulary,
            replace(settings, logit_bias=known),
            context.n_ctx,
            seed=seed,
            n_tokens=n_tokens,
        )
        self._dice = SeededDice(seed, _DRAFTING)
        self._branch = self._filters
        """Looks back on the tokens of the present draft too, where anything looks back."""

    def begin(self, tokens: Sequence[int]) -> None:
        if self._filters.looks_back:
            self._filters.forget()
            self.observe(tokens[max(0, len(tokens) - self._filters.look_back) :])

    def observe(self, tokens: Sequence[int]) -> None:
        self._leave_branch()
        for token in tokens:
            self._filters.accept(token)

    def start(self, after: Sequence[int]) -> None:
        self._leave_branch()
        if self._filters.looks_back:
            self._branch = self._filters.branch()
            for token in after:
                self._branch.accept(token)

    def distribution(self) -> Distribution | None:
        try:
            return self._branch.distribution(self._context.logits[0])
        except (SamplerError, EngineError):
            # A draft that has nothing to say is no reason to end the target's answer.
            return None

    def draw(self, distribution: Distribution) -> int:
        token = self._dice.pick(distribution)
        if self._branch is not self._filters:
            self._branch.accept(token)
        return token

    def close(self) -> None:
        """May be called twice."""
        self._leave_branch()
        self._filters.close()

    def _leave_branch(self) -> None:
        if self._branch is not self._filters:
            self._branch.close()
            self._branch = self._filters
