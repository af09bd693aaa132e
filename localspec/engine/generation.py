"""One answer from prompt tokens to its end, step by step, told in events while it grows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from time import perf_counter
from typing import Any

from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.protocols import Round
from localspec.decoding.statistics import RoundStatistics, ZeroAcceptanceWatch
from localspec.engine.context_shift import shorten
from localspec.engine.prompt import PromptBuilder
from localspec.engine.prompt_fit import FittedPrompt
from localspec.engine.sequence import TargetSequence
from localspec.engine.slot_policy import SlotPolicy
from localspec.engine.text_stream import TextStream
from localspec.engine.thinking import ThinkingSplitter, opened_by
from localspec.events import (
    Answer,
    PromptProgress,
    RoundDone,
    TextDelta,
    TextSpan,
    Timings,
    TokenChance,
)
from localspec.llama.batch import Outputs, Part
from localspec.llama.context import Context
from localspec.llama.sampler import Sampler

_TELL_EVERY_S = 0.03
"""Text is gathered for this long: smooth to read, and no message for every token."""
_TELL_SHARED_S = 0.06
"""The same where answers share passes: what is spent on telling is taken from all of them."""
_PROMPT_STEP = 512
"""Prompt tokens in one pass: cancelling and the other answers wait no longer."""

Emit = Callable[[Any], None]


class Generation:
    """Runs once, in one sequence of the context: `part`, a pass, `settle`, until it has ended.

    Several of them share passes. Leaves the sequence holding what was evaluated, for the next turn
    to build on. Owns its sampler.
    """

    def __init__(
        self,
        context: Context,
        sampler: Sampler,
        policy: SlotPolicy,
        builder: PromptBuilder,
        prompt: FittedPrompt,
        *,
        sequence: int,
        method: str,
        draft_min: int,
        context_shift: bool,
        is_stopped: Callable[[], bool],
        watch: ZeroAcceptanceWatch,
        emit: Emit,
    ) -> None:
        """is_stopped: whether somebody wants this answer to end now."""
        self._context = context
        self._sampler = sampler
        self._policy = policy
        self._builder = builder
        self._request = prompt.request
        self._context_shift = context_shift
        self._is_stopped = is_stopped
        self._watch = watch
        self._emit = emit
        self.sequence = sequence
        self._target = TargetSequence(context, sampler, sequence)
        self._target.ends_answers = not self._request.ignore_end
        self._target.top_logprobs = self._request.top_logprobs
        self._chances: list[TokenChance] = []
        self._loop = SpeculativeLoop(self._target, policy, draft_min=draft_min)
        self._statistics = RoundStatistics(method)
        # Raw text has no turns, so nothing in it is thinking.
        thinking = ThinkingSplitter(opened_by(prompt.text)) if self._request.messages else None
        self._text = TextStream(self._request.stop, thinking)
        self._unread: list[tuple[bytes, bool]] = []
        """Bytes of kept tokens that are no text yet, and whether they were drafted."""
        self._text_decides = bool(self._request.stop)
        """Whether text may end the answer, so that it is read token by token."""
        self._tokens: list[int] = []
        self._spans: list[TextSpan] = []
        self._told = 0.0
        self._reason: str | None = None
        self._prompt = prompt.tokens
        self._begun = perf_counter()
        self._prompt_s: float | None = None
        self._decode_begun = self._begun
        self._decode_s = 0.0
        # The last token is always evaluated: its row of logits is what sampling starts from.
        self._cached = context.keep_prefix(self._prompt[:-1], sequence)
        self._evaluated = self._cached
        self._pending = 0
        """Prompt tokens in the present pass; 0 in a round."""
        self._first: int | None = None
        """The first token, until rounds begin with it."""
        emit(PromptProgress(self._cached, len(self._prompt), self._cached))

    def part(self, rows: int) -> Part | None:
        """What this answer adds to the next pass; None when it has ended.

        rows: most rows of logits it may ask for, at least 1: a draft keeps within them.
        Raises EngineError, and TemplateError where the oldest turns have to go.
        """
        if self._reason is None and self._is_stopped():
            self._end("cancelled")
        if self._reason is not None:
            return None
        left = len(self._prompt) - self._evaluated
        if left:
            self._pending = min(left, _PROMPT_STEP, self._context.n_batch)
            chunk = self._prompt[self._evaluated : self._evaluated + self._pending]
            outputs = Outputs.LAST if self._pending == left else Outputs.NONE
            return Part(chunk, outputs, self.sequence)
        if self._first is not None:
            self._begin_rounds(self._first)
        most = self._request.max_tokens
        if most is not None and len(self._tokens) >= most:
            self._end("length")
        elif not self._loop.has_room and not self._shift():
            self._end("context")
        else:
            self._pending = 0
            wanted = self._context.n_ctx if most is None else most - len(self._tokens)
            return Part(self._loop.propose(min(wanted, rows)), Outputs.ALL, self.sequence)
        return None

    def settle(self, first_row: int, pass_s: float, *, n_sharing: int) -> None:
        """Take what the pass over `part` gave, whose rows begin at `first_row`.

        pass_s: seconds of the pass that are this answer's. n_sharing: answers in it, this one
        included. Raises SamplerError, EngineError.
        """
        if self._pending:
            self._settle_prompt(first_row)
            return
        self._policy.n_sharing = n_sharing
        self._settle_round(self._loop.settle(first_row, pass_s))

    def stop(self) -> None:
        """The pass was cancelled: memory is as before, and the answer ends."""
        self._end("cancelled")

    @property
    def has_ended(self) -> bool:
        return self._reason is not None

    def answer(self, model: str, load_s: float) -> Answer:
        """The finished answer; what it still held back is told first."""
        if self._prompt_s is None:
            self._prompt_s = perf_counter() - self._begun
        self._read()
        self._spans.extend(self._text.flush())
        self._tell()
        return Answer(
            model=model,
            text=self._text.text,
            thinking=self._text.thinking,
            tokens=tuple(self._tokens),
            finish_reason=self._reason or "cancelled",
            prompt_tokens=len(self._prompt),
            cached_tokens=self._cached,
            timings=Timings(
                load_s=load_s,
                prompt_s=self._prompt_s,
                decode_s=self._decode_s,
                prompt_tokens=len(self._prompt) - self._cached,
                decode_tokens=max(0, len(self._tokens) - 1),
            ),
            speculation=self._statistics.speculation(),
        )

    def close(self) -> None:
        """Free the sampler. May be called twice."""
        self._sampler.close()

    def _end(self, reason: str) -> None:
        self._reason = reason
        if self._prompt_s is not None:
            self._decode_s = perf_counter() - self._decode_begun

    def _settle_prompt(self, row: int) -> None:
        self._evaluated += self._pending
        self._emit(PromptProgress(self._evaluated, len(self._prompt), self._cached))
        if self._evaluated < len(self._prompt):
            return
        self._sampler.accept_prompt(self._prompt)
        first = self._target.sample(row)
        most = self._request.max_tokens
        if most is not None and most < 1:
            self._end_at_once("length")
        elif self._take((first,), 0):
            self._end_at_once("stop")
        else:
            # The first word is what people wait for: it is told before drafters read the prompt.
            self._first = first
            self._decode_begun = perf_counter()
            self._tell()

    def _end_at_once(self, reason: str) -> None:
        self._decode_begun = perf_counter()
        self._prompt_s = self._decode_begun - self._begun
        self._end(reason)

    def _begin_rounds(self, first: int) -> None:
        # A draft model reads the prompt here: that is prompt time too.
        self._first = None
        self._loop.start([*self._prompt, first])
        self._told = self._decode_begun = perf_counter()
        self._prompt_s = self._decode_begun - self._begun

    def _settle_round(self, outcome: Round) -> None:
        """Count a round and take its text."""
        self._statistics.add(outcome)
        if outcome.drafted:
            notice = self._watch.add(outcome)
            if notice is not None:
                self._emit(notice)
        if self._take(outcome.tokens, outcome.accepted):
            self._end("stop")
        now = perf_counter()
        every_s = _TELL_SHARED_S if self._policy.is_shared else _TELL_EVERY_S
        # By ticks of one clock, so that answers that share passes tell after the same ones.
        if now // every_s > self._told // every_s:
            self._told = now
            self._tell()

    def _take(self, tokens: tuple[int, ...], accepted: int) -> bool:
        """Kept tokens, the first `accepted` of them drafted; True at an end or a stop string."""
        piece = self._context.model.vocabulary.piece
        chances, self._target.chances = self._target.chances, []
        for index, token in enumerate(tokens):
            self._tokens.append(token)
            if self._target.is_end(token):
                return True
            self._chances += chances[index : index + 1]
            self._unread.append((piece(token), index < accepted))
            if self._text_decides:
                self._read()
                if self._text.stopped:
                    return True
        return False

    def _read(self) -> None:
        """Turn the bytes that are kept into text, a run of drafted or of other tokens at once."""
        unread, self._unread = self._unread, []
        for drafted, run in groupby(unread, key=itemgetter(1)):
            self._spans.extend(self._text.feed(b"".join(data for data, _ in run), drafted))

    def _tell(self) -> None:
        self._read()
        if self._spans or self._chances:
            self._emit(TextDelta(tuple(self._spans), tuple(self._chances)))
            self._spans, self._chances = [], []
        statistics = self._statistics
        self._emit(
            RoundDone(
                completion_tokens=len(self._tokens),
                rounds=statistics.rounds,
                drafted=statistics.drafted,
                accepted=statistics.accepted,
                decode_s=self._decode_s or perf_counter() - self._decode_begun,
                n_ctx_used=self._context.n_tokens(self.sequence),
            )
        )

    def _shift(self) -> bool:
        """Make room by dropping the oldest turns; False when there is nothing to drop."""
        if not self._context_shift:
            return False
        shorter = shorten(self._request, self._builder, len(self._tokens), self._context.n_ctx)
        if shorter is None:
            return False
        self._request, prompt = shorter
        tokens = [*prompt, *self._tokens]
        self._context.keep_prefix(tokens[:-1], self.sequence)
        held = self._context.n_tokens(self.sequence)
        self._context.evaluate(tokens[held:-1], Outputs.NONE, self.sequence)
        self._loop.start(tokens)
        return True
