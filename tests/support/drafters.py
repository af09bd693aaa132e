"""Drafters for tests of the loop and of policies."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.chain import BestDrafter, ChainDrafter
from localspec.decoding.lookup import LookupDrafter
from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.protocols import NO_DRAFT, Draft, Drafter
from tests.support.fake_target import FakeDraftModel, FakeTarget


class ScriptedDrafter:
    """Proposes from a fixed continuation of the conversation, right or wrong as it was given."""

    def __init__(self, continuation: Sequence[int], *, wrong_at: frozenset[int] = frozenset()):
        """wrong_at: places of the continuation where it proposes another token."""
        self._continuation = [
            token + 1 if place in wrong_at else token for place, token in enumerate(continuation)
        ]
        self._position = 0
        self.asked: list[int] = []
        self.seen: list[tuple[tuple[int, ...], int]] = []

    @property
    def name(self) -> str:
        return "scripted"

    def begin(self, tokens: Sequence[int]) -> None:
        self._position = 0

    def propose(self, max_tokens: int) -> Draft:
        self.asked.append(max_tokens)
        tokens = tuple(self._continuation[self._position : self._position + max_tokens])
        return Draft(tokens, self.name) if tokens else NO_DRAFT

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        self.seen.append((tuple(tokens), accepted))
        self._position += len(tokens)


def drafter_like(kind: str, target: FakeTarget) -> Drafter:
    """A drafter of one of DRAFTERS for the text of `target`."""

    def model() -> ModelDrafter:
        return ModelDrafter(
            FakeDraftModel(
                n_ctx=target.n_ctx,
                n_vocab=target.n_vocab,
                order=target.order,
                seed=target.seed,
                recurrent=kind == "recurrent model",
            ),
            n_vocab=target.n_vocab,
        )

    def lookup() -> LookupDrafter:
        static = LookupCache()
        static.learn([7, 8, 9, 7, 8, 9, 1, 2, 3, 4, 1, 2], ngram_min=2, ngram_max=2)
        return LookupDrafter(static=static, min_confidence=0.05)

    def ngram() -> NgramDrafter:
        return NgramDrafter(min_confidence=0.05)

    if kind == "ngram":
        return ngram()
    if kind == "lookup":
        return lookup()
    if kind == "both":
        return BestDrafter([ngram(), lookup()])
    if kind == "chain":
        return ChainDrafter([NgramDrafter(), model()])
    return model()


DRAFTERS = ("ngram", "lookup", "both", "model", "recurrent model", "chain")
