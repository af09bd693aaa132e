"""A deterministic language model made of a hash, with the memory rules of a real context."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from localspec.decoding.distribution import Distribution
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError

END = 0
"""The token that ends a generation of the fake models."""


def next_token(context: Sequence[int], *, n_vocab: int, order: int, seed: int = 0) -> int:
    """The model's most probable token after `context`: a hash of its last `order` tokens.

    A low order makes the text repeat itself, so that drafters have something to find.
    """
    tail = ",".join(map(str, context[max(0, len(context) - order) :]))
    digest = hashlib.blake2b(f"{seed}|{tail}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % n_vocab


class FakeTarget:
    """A `Target` over `next_token`; with `sampler_seed` it samples instead of being greedy.

    Sampling draws once per kept token from a stream of its own, as a real sampler chain does: a
    draw that is made out of turn or twice changes every later token.
    rolls_back_to_mark_only: behaves as a recurrent memory does.
    """

    def __init__(
        self,
        *,
        n_ctx: int = 512,
        n_vocab: int = 32,
        order: int = 2,
        seed: int = 0,
        sampler_seed: int | None = None,
        ends: bool = False,
        recurrent: bool = False,
    ) -> None:
        self._n_ctx = n_ctx
        self.n_vocab = n_vocab
        self.order = order
        self.seed = seed
        self.sampler_seed = sampler_seed
        self.ends = ends
        self.recurrent = recurrent
        self.held: list[int] = []
        self.rows: list[int] = []
        self.marked = 0
        self.draws = 0
        self.passes: list[tuple[int, ...]] = []
        self.rollbacks: list[tuple[int, int]] = []

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_tokens(self) -> int:
        return len(self.held)

    def mark(self) -> None:
        self.marked = len(self.held)

    def evaluate(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise EngineError("an empty pass")
        if len(self.held) + len(tokens) > self._n_ctx:
            raise EngineError("the pass does not fit into the context")
        first = len(self.held)
        self.held.extend(tokens)
        self.rows = list(range(first + 1, len(self.held) + 1))
        self.passes.append(tuple(tokens))
        # Memory that cannot be cut has moved on, unless the caller marked where it may return to.
        if self.recurrent and self.marked < first:
            self.marked = len(self.held)

    def sample(self, row: int) -> int:
        context = self.held[: self.rows[row]]
        salt = self.seed
        if self.sampler_seed is not None:
            self.draws += 1
            # One of three variants of the text at each place, chosen by the stream of draws.
            salt = self.seed + next_token([self.draws], n_vocab=3, order=1, seed=self.sampler_seed)
        token = next_token(context, n_vocab=self.n_vocab, order=self.order, seed=salt)
        if token == END and not self.ends:
            token = 1
        return token

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        """Whatever was proposed: what it says itself is distributed as it should be."""
        return self.sample(row)

    def rollback(self, n_tokens: int) -> None:
        if n_tokens > len(self.held) or n_tokens < 0:
            raise EngineError(f"cannot keep {n_tokens} of {len(self.held)} tokens")
        if self.recurrent and n_tokens < self.marked:
            raise EngineError("recurrent memory cannot go back beyond its mark")
        self.rollbacks.append((len(self.held), n_tokens))
        del self.held[n_tokens:]
        self.rows = []

    def is_end(self, token: int) -> bool:
        return self.ends and token == END


class FakeDraftModel:
    """A `DraftModel` that agrees with the fake target at most places.

    wrong_every: it errs where the length of the context is a multiple of this; 0 never errs.
    """

    def __init__(
        self,
        *,
        n_ctx: int = 512,
        n_vocab: int = 32,
        order: int = 2,
        seed: int = 0,
        wrong_every: int = 5,
        probability: float = 0.9,
        recurrent: bool = False,
    ) -> None:
        self._n_ctx = n_ctx
        self.n_vocab = n_vocab
        self.order = order
        self.seed = seed
        self.wrong_every = wrong_every
        self.probability = probability
        self.recurrent = recurrent
        self.held: list[int] = []
        self.marked = 0
        self.evaluated = 0
        self.make_sampler = FakeDraftSampler
        self.samplers: list[FakeDraftSampler] = []

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_tokens(self) -> int:
        return len(self.held)

    def mark(self) -> None:
        self.marked = len(self.held)

    def evaluate(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise EngineError("an empty pass")
        if len(self.held) + len(tokens) > self._n_ctx:
            raise EngineError("the pass does not fit into the draft's context")
        self.held.extend(tokens)
        self.evaluated += len(tokens)

    def best(self) -> tuple[int, float]:
        token = next_token(self.held, n_vocab=self.n_vocab, order=self.order, seed=self.seed) or 1
        if self.wrong_every and len(self.held) % self.wrong_every == 0:
            token = (token + 1) % self.n_vocab
        return token, self.probability

    def rollback(self, n_tokens: int) -> None:
        if n_tokens > len(self.held) or n_tokens < 0:
            raise EngineError(f"cannot keep {n_tokens} of {len(self.held)} tokens")
        if self.recurrent and 0 < n_tokens < self.marked:
            raise EngineError("recurrent memory cannot go back beyond its mark")
        del self.held[n_tokens:]

    def sampler(self, settings: SamplingSettings, n_vocab: int) -> FakeDraftSampler:
        self.samplers.append(self.make_sampler(self))
        return self.samplers[-1]


class FakeDraftSampler:
    """Draws from a distribution that has one token: the draft's best."""

    def __init__(self, model: FakeDraftModel) -> None:
        self._model = model
        self.history: list[int] = []
        self.drawn: list[int] = []
        self.closed = 0

    def begin(self, tokens: Sequence[int]) -> None:
        self.history = list(tokens)

    def observe(self, tokens: Sequence[int]) -> None:
        self.history.extend(tokens)

    def start(self, after: Sequence[int]) -> None:
        self.drawn = list(after)

    def distribution(self) -> Distribution | None:
        token, _ = self._model.best()
        return Distribution(np.array([token], np.int32), np.ones(1))

    def draw(self, distribution: Distribution) -> int:
        token = int(distribution.ids[0])
        self.drawn.append(token)
        return token

    def close(self) -> None:
        self.closed += 1
