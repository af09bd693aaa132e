"""What the loop knows of a target, a drafter and a policy, and nothing more.

Words as in the field: a *round* proposes draft tokens, verifies them in one target pass, keeps the
accepted prefix and the bonus token, and rolls the rest back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from localspec.decoding.distribution import Distribution
    from localspec.decoding.sampling import SamplingSettings


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposed in one round."""

    tokens: tuple[int, ...]
    source: str
    """Name of the drafter that proposed: `ngram`, `lookup`, `model`."""
    confidences: tuple[float, ...] = ()
    """For each token a confidence in [0, 1], conditional on the tokens before it; empty when the
    drafter has none. Of a drawn token it was stated before the draw."""
    match_length: int = 0
    """Tokens of context that the n-gram match covered; 0 for a draft model."""
    proposals: tuple[Distribution | None, ...] = ()
    """For each token the distribution it was drawn from; None, or no entry, for a sure token.

    A drawn token is kept or replaced so that the target's distribution comes out, which holds only
    if the draw itself did not decide whether it is verified. So whoever shortens or drops a draft
    with drawn tokens may decide about a token by what was known before it was drawn (limits,
    confidences up to its own), never by its length, its later confidences or its tokens.
    """
    then: str = ""
    """Name of the drafter that went on with tokens `n_first` and later; empty when one made all."""
    n_first: int = 0
    """Leading tokens that `source` made, where another drafter went on."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_drawn(self) -> bool:
        """Whether any token was drawn; then the draft is verified as it stands."""
        return any(proposal is not None for proposal in self.proposals)

    def first(self, count: int) -> Draft:
        """This draft cut to at most `count` tokens."""
        if count >= len(self.tokens):
            return self
        return Draft(
            self.tokens[:count],
            self.source,
            self.confidences[:count],
            self.match_length,
            self.proposals[:count],
            self.then if count > self.n_first else "",
            self.n_first if count > self.n_first else 0,
        )

    def shares(self, accepted: int) -> tuple[tuple[str, int, int], ...]:
        """(drafter, drafted, accepted) of each drafter that has a part in it, when `accepted` of
        all its tokens were."""
        if not self.then:
            return ((self.source, len(self.tokens), accepted),)
        n_first = self.n_first
        return (
            (self.source, n_first, min(accepted, n_first)),
            (self.then, len(self.tokens) - n_first, max(0, accepted - n_first)),
        )

    def followed_by(self, other: Draft) -> Draft:
        """This draft with `other`, which was made behind it, as its continuation.

        It keeps its source and match length. Confidences only if both drafts have them.
        """
        if not other.tokens:
            return self
        both = len(self.confidences) == len(self.tokens) and bool(other.confidences)
        proposals: tuple[Distribution | None, ...] = ()
        if self.proposals or other.proposals:
            proposals = (
                *self.proposals,
                *(None,) * (len(self.tokens) - len(self.proposals)),
                *other.proposals,
            )
        return Draft(
            self.tokens + other.tokens,
            self.source,
            self.confidences + other.confidences if both else (),
            self.match_length,
            proposals,
            other.source,
            len(self.tokens),
        )


NO_DRAFT = Draft((), "none")


class Drafter(Protocol):
    """Anything that proposes. The loop and the controller know nothing else about it."""

    @property
    def name(self) -> str:
        """Short name, the key of statistics."""
        ...

    def begin(self, tokens: Sequence[int]) -> None:
        """A new or changed prefix: `tokens` is all of it. Rebuild what depends on it, and no more.

        The last of `tokens` is the one whose followers are drafted next.
        """
        ...

    def propose(self, max_tokens: int) -> Draft:
        """At most `max_tokens` tokens that may follow; NO_DRAFT when it has no idea."""
        ...

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        """`tokens` were kept this round, bonus token included; the first `accepted` of them were
        draft tokens, of whichever drafter. Called for every round, also for plain ones."""
        ...


class Target(Protocol):
    """One sequence of the target model with its sampler, as the loop sees it."""

    @property
    def n_ctx(self) -> int:
        """Tokens the context can hold."""
        ...

    @property
    def n_tokens(self) -> int:
        """Tokens the context holds now."""
        ...

    def mark(self) -> None:
        """Rollback will not go back beyond the tokens held now. Free where memory can be cut."""
        ...

    def evaluate(self, tokens: Sequence[int]) -> None:
        """Append `tokens` in one pass with an output row for each of them.

        Raises EngineError when llama.cpp refuses; Cancelled when the user stopped it.
        """
        ...

    def sample(self, row: int) -> int:
        """The sampler's draw from output row `row` of the last pass. The draw is accepted by the
        sampler (penalties, grammar), so call it once for each kept token, in order.

        Raises SamplerError when no token is left to choose.
        """
        ...

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        """`token`, which was drawn from `proposal`, if the target keeps it, and else another one
        that it says in its place: in either case distributed as what `sample` draws from `row`.
        Accepted by the sampler as `sample` does it, and in the same order.

        Raises SamplerError when no token is left to choose.
        """
        ...

    def rollback(self, n_tokens: int) -> None:
        """Keep the first `n_tokens` tokens. Raises EngineError when memory cannot do it."""
        ...

    def is_end(self, token: int) -> bool:
        """Whether `token` ends the generation (`llama_vocab_is_eog`)."""
        ...


class DraftModel(Protocol):
    """One sequence of a draft model, as the draft-model drafter sees it."""

    @property
    def n_ctx(self) -> int: ...

    @property
    def n_tokens(self) -> int: ...

    def mark(self) -> None:
        """As `Target.mark`."""
        ...

    def evaluate(self, tokens: Sequence[int]) -> None:
        """Append `tokens`; an output row for the last of them only. Any length: long input is
        split by n_batch."""
        ...

    def best(self) -> tuple[int, float]:
        """The most probable next token after the last evaluated one, and its probability."""
        ...

    def rollback(self, n_tokens: int) -> None: ...

    def sampler(self, settings: SamplingSettings, n_vocab: int) -> DraftSampler:
        """Draws from the output row of the last evaluated token, by the settings of an answer.

        n_vocab: ids from here on are never drawn. Close it when the answer is over.
        """
        ...


class DraftSampler(Protocol):
    """What draws a draft model's tokens, behind a conversation that grows."""

    def begin(self, tokens: Sequence[int]) -> None:
        """`tokens` is all of the conversation, for penalties to look back on."""
        ...

    def observe(self, tokens: Sequence[int]) -> None:
        """The conversation goes on with `tokens`."""
        ...

    def start(self, after: Sequence[int]) -> None:
        """A new draft begins behind the conversation and `after`."""
        ...

    def distribution(self) -> Distribution | None:
        """Of the next token of the draft; None where the draft's logits leave no token."""
        ...

    def draw(self, distribution: Distribution) -> int:
        """One token of it; the draft goes on with it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did; the unit of statistics, events and of the controller's learning."""

    tokens: tuple[int, ...]
    """Kept tokens, bonus token included; cut after an end token."""
    accepted: int
    """How many of `tokens` were draft tokens."""
    drafted: int
    """How many tokens the draft had."""
    source: str
    """Drafter of this round, `none` when nothing was proposed."""
    draft: Draft
    propose_s: float
    """Seconds spent proposing."""
    verify_s: float
    """Seconds in the target pass, sampling of its rows included."""
    rollback_s: float
    """Seconds spent rolling back, a replayed pass included."""


class Policy(Protocol):
    """Chooses what to propose each round: one fixed drafter, or the controller."""

    def begin(self, tokens: Sequence[int]) -> None: ...

    def propose(self, max_tokens: int) -> Draft: ...

    def observe(self, outcome: Round) -> None: ...
