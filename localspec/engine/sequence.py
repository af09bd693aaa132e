"""One sequence of a context, as the decoding loop and the draft-model drafter see it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.decoding.distribution import Distribution, keep_or_replace
from localspec.decoding.protocols import DraftSampler
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.draft_sampling import DraftSampling
from localspec.events import TokenChance
from localspec.llama.batch import Outputs
from localspec.llama.context import Context
from localspec.llama.sampler import Sampler


class TargetSequence:
    """`decoding.protocols.Target` over a context and the sampler of the running answer."""

    def __init__(self, context: Context, sampler: Sampler, sequence: int = 0) -> None:
        self._context = context
        self._sampler = sampler
        self._sequence = sequence
        self._is_end = context.model.vocabulary.is_end
        self.ends_answers = True
        """False to go on past end tokens, for measuring."""
        self.top_logprobs: int | None = None
        """How many of the most probable tokens `chances` names; None notes nothing."""
        self.chances: list[TokenChance] = []
        """Of every token that was sampled, in order; whoever reads them takes them out."""

    @property
    def n_ctx(self) -> int:
        return self._context.n_ctx

    @property
    def n_tokens(self) -> int:
        return self._context.n_tokens(self._sequence)

    def mark(self) -> None:
        self._context.mark(self._sequence)

    def evaluate(self, tokens: Sequence[int]) -> None:
        self._context.evaluate(tokens, Outputs.ALL, self._sequence)

    def sample(self, row: int) -> int:
        token = self._sampler.sample(self._context, row)
        if self.top_logprobs is not None:
            self.chances.append(self._chance(token, row, self.top_logprobs))
        return token

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        target = self._sampler.distribution(self._context, row)
        kept = keep_or_replace(target, proposal, token, self._sampler.dice)
        self._sampler.accept(kept)
        if self.top_logprobs is not None:
            self.chances.append(self._chance(kept, row, self.top_logprobs))
        return kept

    def _chance(self, token: int, row: int, n_top: int) -> TokenChance:
        logits = self._context.logits[row].astype(np.float64)
        highest = logits.max()
        norm = float(highest + np.log(np.exp(logits - highest).sum()))
        piece = self._context.model.vocabulary.piece
        n_top = min(n_top, len(logits))
        best = np.argpartition(-logits, n_top - 1)[:n_top] if n_top else np.empty(0, np.int64)
        ranked = sorted((int(t) for t in best), key=lambda t: (-logits[t], t))
        return TokenChance(
            token,
            piece(token),
            float(logits[token]) - norm,
            tuple((t, piece(t), float(logits[t]) - norm) for t in ranked),
        )

    def rollback(self, n_tokens: int) -> None:
        self._context.rollback_to(n_tokens, self._sequence)

    def is_end(self, token: int) -> bool:
        return self.ends_answers and self._is_end(token)


class DraftSequence:
    """`decoding.protocols.DraftModel` over the draft's context."""

    def __init__(self, context: Context, sequence: int = 0) -> None:
        self._context = context
        self._sequence = sequence

    @property
    def n_ctx(self) -> int:
        return self._context.n_ctx

    @property
    def n_tokens(self) -> int:
        return self._context.n_tokens(self._sequence)

    def mark(self) -> None:
        self._context.mark(self._sequence)

    def evaluate(self, tokens: Sequence[int]) -> None:
        n_vocab = self._context.n_vocab
        if max(tokens) >= n_vocab:
            # The target's vocabulary may be padded further: any token stands for one of those.
            tokens = [min(token, n_vocab - 1) for token in tokens]
        self._context.evaluate(tokens, Outputs.LAST, self._sequence)

    def sampler(self, settings: SamplingSettings, n_vocab: int) -> DraftSampler:
        return DraftSampling(self._context, settings, n_vocab)

    def best(self) -> tuple[int, float]:
        """One pass over the row: softmax needs the sum of exponentials, not the probabilities."""
        row = self._context.logits[0]
        token = int(row.argmax())
        total = float(np.exp(row - row[token]).sum())
        return token, 1.0 / total

    def rollback(self, n_tokens: int) -> None:
        """Goes back to `n_tokens`; memory that cannot is cleared, and is evaluated again later."""
        held = list(self._context.tokens(self._sequence)[:n_tokens])
        kept = self._context.keep_prefix(held, self._sequence)
        if kept < len(held):
            self._context.evaluate(held[kept:], Outputs.NONE, self._sequence)
