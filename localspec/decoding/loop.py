"""One sequence, round by round: propose, verify in one target pass, keep, roll back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from localspec.decoding.protocols import NO_DRAFT, Draft, Policy, Round, Target
from localspec.decoding.verification import verify
from localspec.errors import EngineError


@dataclass(frozen=True, slots=True)
class _Pending:
    """A round between `propose` and `settle`."""

    draft: Draft
    n_before: int
    """Tokens in memory before the pass."""
    propose_s: float


class SpeculativeLoop:
    """Decodes one sequence; between rounds the target's memory holds all tokens but the last.

    `step` is a whole round. Who decodes several sequences in one batch calls `propose` for each,
    evaluates what it returns, and calls `settle` with the first output row of each.
    """

    def __init__(self, target: Target, policy: Policy, *, draft_min: int = 0) -> None:
        """draft_min: a shorter draft is dropped, not verified, unless its tokens were drawn."""
        self._target = target
        self._policy = policy
        self._draft_min = draft_min
        self._last: int | None = None
        self._pending: _Pending | None = None

    def start(self, tokens: Sequence[int]) -> None:
        """Go on from `tokens`: all of the conversation, the last one not evaluated yet.

        The target's memory holds the others already. Raises EngineError when it does not.
        """
        held = self._target.n_tokens
        if not tokens or held != len(tokens) - 1:
            raise EngineError(
                f"the context holds {held} tokens where {len(tokens) - 1} are expected",
                held=held,
                expected=len(tokens) - 1,
            )
        self._pending = None
        self._last = tokens[-1]
        self._policy.begin(tokens)

    @property
    def last_token(self) -> int:
        """The newest token; it is not in memory yet."""
        if self._last is None:
            raise EngineError("the loop has not been started")
        return self._last

    @property
    def has_room(self) -> bool:
        """Whether the context can take another pass; False is the end by `context`."""
        return self._target.n_tokens < self._target.n_ctx

    def propose(self, max_new_tokens: int) -> tuple[int, ...]:
        """The tokens to evaluate in this round's pass: the last one and the draft behind it.

        max_new_tokens: tokens still wanted, at least 1; the draft never exceeds what they and the
        context leave. Raises EngineError when the context is full.
        """
        last = self.last_token
        n_before = self._target.n_tokens
        n_ctx = self._target.n_ctx
        if n_before >= n_ctx:
            raise EngineError(f"the context is full: {n_before} of {n_ctx} tokens", n_ctx=n_ctx)
        # The bonus token of the round is one of the wanted tokens, and `last` needs its own cell.
        most = min(max_new_tokens - 1, n_ctx - n_before - 1)
        begun = perf_counter()
        draft = self._policy.propose(most).first(most) if most > 0 else NO_DRAFT
        is_short = len(draft) < self._draft_min and not draft.is_drawn
        if is_short or not draft.tokens:
            draft = NO_DRAFT
        else:
            self._target.mark()
        self._pending = _Pending(draft, n_before, perf_counter() - begun)
        return (last, *draft.tokens)

    def settle(self, first_row: int = 0, pass_s: float = 0.0) -> Round:
        """Verify what `propose` returned, now that it is evaluated, and end the round.

        first_row: output row of the first of those tokens. pass_s: seconds of the target pass that
        are this sequence's. When sampling fails, the memory is left with every token up to and
        including the last one, and the error goes on.
        """
        pending = self._pending
        if pending is None:
            raise EngineError("there is no round to settle")
        self._pending = None
        draft, n_before = pending.draft, pending.n_before
        begun = perf_counter()
        try:
            verdict = verify(self._target, draft.tokens, first_row, draft.proposals)
        except BaseException:
            if draft.tokens:
                self._target.rollback(n_before + 1)
            raise
        verified = perf_counter()
        if len(draft) > verdict.accepted:
            self._target.rollback(n_before + len(verdict.tokens))
        ended = perf_counter()
        self._last = verdict.tokens[-1]
        outcome = Round(
            tokens=verdict.tokens,
            accepted=verdict.accepted,
            drafted=len(draft),
            source=draft.source,
            draft=draft,
            propose_s=pending.propose_s,
            verify_s=pass_s + verified - begun,
            rollback_s=ended - verified,
        )
        self._policy.observe(outcome)
        return outcome

    def step(self, max_new_tokens: int) -> Round:
        """One round of at least one and at most `max_new_tokens` tokens."""
        tokens = self.propose(max_new_tokens)
        begun = perf_counter()
        try:
            self._target.evaluate(tokens)
        except BaseException:
            self._pending = None
            raise
        return self.settle(pass_s=perf_counter() - begun)
