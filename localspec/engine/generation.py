"""One answer from prompt tokens to its end, told in events while it grows."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.protocols import Policy, Round
from localspec.decoding.statistics import RoundStatistics, ZeroAcceptanceWatch
from localspec.engine.context_shift import shorten
from localspec.engine.prompt import PromptBuilder
from localspec.engine.sequence import TargetSequence
from localspec.engine.settings import GenerateRequest
from localspec.engine.text_stream import TextStream
from localspec.engine.thinking import ThinkingSplitter, opened_by
from localspec.errors import Cancelled, PromptTooLong
from localspec.events import Answer, PromptProgress, RoundDone, TextDelta, TextSpan, Timings
from localspec.llama.batch import Outputs
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import Context
from localspec.llama.sampler import Sampler

_TELL_EVERY_S = 0.03
"""Text is gathered for this long: smooth to read, and no message for every token."""

Emit = Callable[[Any], None]


class Generation:
    """Runs once. Leaves the context holding what was evaluated, for the next turn to build on."""

    def __init__(
        self,
        context: Context,
        sampler: Sampler,
        policy: Policy,
        builder: PromptBuilder,
        request: GenerateRequest,
        *,
        method: str,
        draft_min: int,
        context_shift: bool,
        cancel: CancelFlag,
        watch: ZeroAcceptanceWatch,
        emit: Emit,
    ) -> None:
        self._context = context
        self._sampler = sampler
        self._builder = builder
        self._request = request
        self._context_shift = context_shift
        self._cancel = cancel
        self._watch = watch
        self._emit = emit
        self._target = TargetSequence(context, sampler)
        self._target.ends_answers = not request.ignore_end
        self._loop = SpeculativeLoop(self._target, policy, draft_min=draft_min)
        self._statistics = RoundStatistics(method)
        self._tokens: list[int] = []
        self._spans: list[TextSpan] = []
        self._told = 0.0
        self._decode_begun = perf_counter()
        self._decode_s = 0.0

    def run(self, model: str, load_s: float) -> Answer:
        """Raises PromptTooLong, TemplateError, SamplerError, EngineError; cancelling is no error:
        the answer then ends with finish_reason `cancelled`."""
        prompt, text = self._build_prompt()
        # Raw text has no turns, so nothing in it is thinking.
        thinking = ThinkingSplitter(opened_by(text)) if self._request.messages else None
        self._text = TextStream(self._request.stop, thinking)
        n_prompt = len(prompt)
        begun = perf_counter()
        cached = 0
        try:
            cached = self._evaluate_prompt(prompt)
            first = self._target.sample(0)
        except Cancelled:
            reason = "cancelled"
            prompt_s = perf_counter() - begun
        else:
            prompt_s = perf_counter() - begun
            reason = self._decode(prompt, first)
        self._spans.extend(self._text.flush())
        self._tell()
        return Answer(
            model=model,
            text=self._text.text,
            thinking=self._text.thinking,
            tokens=tuple(self._tokens),
            finish_reason=reason,
            prompt_tokens=n_prompt,
            cached_tokens=cached,
            timings=Timings(
                load_s=load_s,
                prompt_s=prompt_s,
                decode_s=self._decode_s,
                prompt_tokens=n_prompt - cached,
                decode_tokens=max(0, len(self._tokens) - 1),
            ),
            speculation=self._statistics.speculation(),
        )

    def _build_prompt(self) -> tuple[list[int], str]:
        prompt, text = self._builder.build(self._request)
        notice = self._builder.take_notice()
        if notice is not None:
            self._emit(notice)
        n_ctx = self._context.n_ctx
        if len(prompt) < n_ctx:
            return prompt, text
        shorter = shorten(self._request, self._builder, 0, n_ctx) if self._context_shift else None
        if shorter is None:
            raise PromptTooLong(
                f"the prompt has {len(prompt)} tokens, the context {n_ctx}",
                hint="a larger --ctx holds it; --context-shift drops the oldest turns instead",
                prompt_tokens=len(prompt),
                n_ctx=n_ctx,
            )
        self._request, prompt = shorter
        return prompt, text

    def _evaluate_prompt(self, tokens: list[int]) -> int:
        """Bring memory to exactly `tokens`, with a row of logits for the last; tokens reused."""
        context = self._context
        # The last token is always evaluated: its row of logits is what sampling starts from.
        cached = context.keep_prefix(tokens[:-1])
        step = min(512, context.n_batch)
        self._emit(PromptProgress(cached, len(tokens), cached))
        for start in range(cached, len(tokens), step):
            if self._cancel.is_set:
                raise Cancelled("the prompt was cancelled")
            chunk = tokens[start : start + step]
            is_last = start + step >= len(tokens)
            context.evaluate(chunk, Outputs.LAST if is_last else Outputs.NONE)
            self._emit(PromptProgress(start + len(chunk), len(tokens), cached))
        self._sampler.accept_prompt(tokens)
        return cached

    def _decode(self, prompt: list[int], first: int) -> str:
        """Rounds until the answer ends; why it did."""
        begun = self._told = self._decode_begun = perf_counter()
        most = self._request.max_tokens
        try:
            if most is not None and most < 1:
                return "length"
            if self._take((first,), 0):
                return "stop"
            self._loop.start([*prompt, first])
            while most is None or len(self._tokens) < most:
                if self._cancel.is_set:
                    return "cancelled"
                if not self._loop.has_room and not self._shift():
                    return "context"
                wanted = self._context.n_ctx if most is None else most - len(self._tokens)
                if self._settle(self._loop.step(wanted)):
                    return "stop"
            return "length"
        except Cancelled:
            return "cancelled"
        finally:
            self._decode_s = perf_counter() - begun

    def _settle(self, outcome: Round) -> bool:
        """Count a round and take its text; whether the answer ends with it."""
        self._statistics.add(outcome)
        notice = self._watch.add(outcome)
        if notice is not None:
            self._emit(notice)
        ended = self._take(outcome.tokens, outcome.accepted)
        now = perf_counter()
        if now - self._told >= _TELL_EVERY_S:
            self._told = now
            self._tell()
        return ended

    def _take(self, tokens: tuple[int, ...], accepted: int) -> bool:
        """Text of kept tokens, the first `accepted` of them drafted; True at an end or a stop."""
        vocabulary = self._context.model.vocabulary
        for index, token in enumerate(tokens):
            self._tokens.append(token)
            if self._target.is_end(token):
                return True
            self._spans.extend(self._text.feed(vocabulary.piece(token), index < accepted))
            if self._text.stopped:
                return True
        return False

    def _tell(self) -> None:
        if self._spans:
            self._emit(TextDelta(tuple(self._spans)))
            self._spans = []
        statistics = self._statistics
        self._emit(
            RoundDone(
                completion_tokens=len(self._tokens),
                rounds=statistics.rounds,
                drafted=statistics.drafted,
                accepted=statistics.accepted,
                decode_s=self._decode_s or perf_counter() - self._decode_begun,
                n_ctx_used=self._context.n_tokens(),
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
        self._context.keep_prefix(tokens[:-1])
        held = self._context.n_tokens()
        self._context.evaluate(tokens[held:-1], Outputs.NONE)
        self._loop.start(tokens)
        return True
