"""The draft-model drafter: a small model of the same vocabulary proposes what it would say."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.decoding.distribution import Distribution
from localspec.decoding.prefix import common_prefix
from localspec.decoding.protocols import NO_DRAFT, Draft, DraftModel, DraftSampler
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError


class ModelDrafter:
    """Keeps the draft's memory in step with the conversation, and decodes no token twice.

    Before it proposes it evaluates, in one pass, exactly what the draft has missed: its own last
    proposal, which was never evaluated, the bonus token, and whatever other drafters added.
    """

    def __init__(
        self,
        model: DraftModel,
        *,
        n_vocab: int,
        p_min: float = 0.6,
        draft_max: int = 16,
        eager: bool = True,
    ) -> None:
        """n_vocab: tokens of the target; ids from here on are never proposed (the draft's
        vocabulary may be padded further). p_min: drafting stops where the draft's own probability
        falls below. eager: evaluate the prompt in `begin`, where it counts as prompt time, and not
        with the first proposal.
        """
        self._model = model
        self._n_vocab = n_vocab
        self.p_min = p_min
        self.draft_max = draft_max
        self.stop_below = 0.0
        """Drafting stops where the product of the probabilities falls below; 0.0 never stops."""
        self._eager = eager
        self._sampler: DraftSampler | None = None
        self._tokens: list[int] = []
        self._held: list[int] = []

    @property
    def name(self) -> str:
        return "model"

    def sample_as(self, settings: SamplingSettings | None) -> None:
        """How the next answer is sampled: its draft tokens are drawn likewise where its sampler
        allows that, and are the draft's likeliest ones where not, or for None."""
        self.close()
        if settings is not None and settings.draws_from_softmax:
            self._sampler = self._model.sampler(settings, self._n_vocab)

    @property
    def draws(self) -> bool:
        """Whether its tokens are drawn: then nothing but limits may shorten a draft of its."""
        return self._sampler is not None

    def close(self) -> None:
        """Free what draws. May be called twice."""
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    @property
    def n_missing(self) -> int:
        """Tokens of the conversation that the draft has yet to evaluate."""
        return len(self._tokens) - len(self._held)

    def begin(self, tokens: Sequence[int]) -> None:
        self._tokens = list(tokens)
        if self._sampler is not None:
            self._sampler.begin(tokens)
        if self._model.n_tokens != len(self._held):
            # A pass was interrupted: what it left in memory is not known.
            self._model.rollback(0)
            self._held.clear()
        # The last token is always evaluated anew: its output row is what drafting starts from.
        self._keep(min(common_prefix(self._held, tokens), max(0, len(tokens) - 1)))
        if self._eager and self._model.n_ctx > len(tokens) and len(tokens) - 1 > len(self._held):
            self._evaluate(self._tokens[len(self._held) : -1])

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        before = len(self._tokens)
        self._tokens.extend(tokens)
        if self._sampler is not None:
            self._sampler.observe(tokens)
        if len(self._held) > before:
            self._keep(before + common_prefix(self._held[before:], tokens))

    def propose(self, max_tokens: int, after: Sequence[int] = ()) -> Draft:
        """At most `max_tokens` tokens that may follow the conversation and, behind it, `after`:
        tokens that another drafter guessed this round. The draft holds only what comes behind them.
        """
        behind = len(self._tokens)
        length = behind + len(after)
        n_ctx = self._model.n_ctx
        # The conversation, `after`, and all of the draft but its last token have to fit.
        most = min(max_tokens, self.draft_max, n_ctx - length + 1)
        if most < 1 or not self._tokens or n_ctx < length:
            return NO_DRAFT
        # What was proposed and never verified still stands in memory. The last token is
        # evaluated in any case: its output row is what drafting starts from.
        guessed = common_prefix(self._held[behind:], after) if len(self._held) > behind else 0
        self._keep(min(len(self._held), behind + guessed, length - 1))
        if after and 0 < len(self._held) <= behind:
            # Guesses may be rejected, and recurrent memory cannot go back beyond its mark.
            self._model.mark()
        held = len(self._held)
        self._evaluate([*self._tokens[held:], *after[max(0, held - behind) :]])
        if not after:
            self._model.mark()
        if self._sampler is None:
            return self._likeliest(most)
        self._sampler.start(after)
        return self._drawn(self._sampler, most)

    def _likeliest(self, most: int) -> Draft:
        """At most `most` tokens, each the draft's most probable one."""
        tokens: list[int] = []
        confidences: list[float] = []
        product = 1.0
        while True:
            token, probability = self._model.best()
            product *= probability
            # Also a probability that is no number ends it.
            likely = probability >= self.p_min and product >= self.stop_below
            if not likely or token >= self._n_vocab:
                break
            tokens.append(token)
            confidences.append(probability)
            if len(tokens) >= most:
                break
            self._evaluate([token])
        return Draft(tuple(tokens), self.name, tuple(confidences)) if tokens else NO_DRAFT

    def _drawn(self, sampler: DraftSampler, most: int) -> Draft:
        """At most `most` tokens, each a draw from the draft's distribution.

        Whether there is another token is settled before it is drawn: to drop a token for what it
        is would leave those that are verified distributed otherwise than they claim.
        """
        tokens: list[int] = []
        confidences: list[float] = []
        proposals: list[Distribution] = []
        product = 1.0
        while True:
            proposal = sampler.distribution()
            if proposal is None:
                break
            confidence = proposal.highest
            product *= confidence
            if confidence < self.p_min or product < self.stop_below:
                break
            tokens.append(sampler.draw(proposal))
            confidences.append(confidence)
            proposals.append(proposal)
            if len(tokens) >= most:
                break
            self._evaluate(tokens[-1:])
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), self.name, tuple(confidences), proposals=tuple(proposals))

    def _evaluate(self, tokens: list[int]) -> None:
        self._model.evaluate(tokens)
        self._held.extend(tokens)

    def _keep(self, n_tokens: int) -> None:
        """Hold at most the first `n_tokens` tokens that are held now."""
        if len(self._held) <= n_tokens:
            return
        try:
            self._model.rollback(n_tokens)
        except EngineError:
            # Recurrent memory cannot go back beyond its mark: it starts again from nothing.
            self._model.rollback(0)
            n_tokens = 0
        del self._held[n_tokens:]
