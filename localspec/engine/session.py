"""A session: loaded models, what they hold, and one answer after the other. Lives in the child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn

from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import DraftModel
from localspec.decoding.statistics import ZeroAcceptanceWatch
from localspec.engine.bounds import check_settings
from localspec.engine.cost_probe import probe_costs
from localspec.engine.cost_store import cost_path, load_costs, save_costs
from localspec.engine.drafting import Drafting
from localspec.engine.generation import Generation
from localspec.engine.guard import learn_from_load
from localspec.engine.loading import Loaded, load_draft, load_target
from localspec.engine.prompt import PromptBuilder
from localspec.engine.prompt_fit import fit_prompt
from localspec.engine.questions import Question, answer
from localspec.engine.scheduler import Scheduler
from localspec.engine.sequence import DraftSequence
from localspec.engine.settings import EmbedRequest, EngineSettings, GenerateRequest
from localspec.engine.slot_policy import SlotPolicy
from localspec.engine.thinking import MARKER_TOKENS
from localspec.engine.threads import default_threads
from localspec.errors import Cancelled, LocalspecError, UsageError
from localspec.events import Answer, Notice
from localspec.ggufmeta.vocabulary import fingerprint
from localspec.llama.batch import Outputs
from localspec.llama.cancel import CancelFlag
from localspec.llama.capabilities import devices
from localspec.llama.context import Rollback
from localspec.llama.library import library_version
from localspec.llama.log import NativeLog
from localspec.llama.sampler import Sampler

Emit = Callable[[Any], None]
IsStopped = Callable[[], bool]
Running = Generation
"""An answer that was begun; `step` tells when it has ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer that is over."""

    running: Running
    answer: Answer | None
    error: LocalspecError | None
    """Why there is no answer."""

    def result(self) -> Answer:
        """Raises the error."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class Session:
    """Owns the target and, once it is needed, the draft model."""

    def __init__(
        self, settings: EngineSettings, log: NativeLog, cancel: CancelFlag, emit: Emit
    ) -> None:
        """Load. `emit` gets LoadProgress and Notice until this returns.

        Raises UsageError, BadModelFile, IncompatiblePair, EngineError, Cancelled.
        """
        check_settings(settings)
        begun = perf_counter()
        free_before = _free_memory(settings)
        self._settings = settings
        self._log = log
        self._cancel = cancel
        self._emit = emit
        self._draft: Loaded | None = None
        self._target = load_target(settings, log, cancel, emit)
        try:
            context = self._target.context
            self._target.model.vocabulary.write_out(MARKER_TOKENS)
            self._builder = PromptBuilder(self._target.model)
            self._watch = ZeroAcceptanceWatch()
            self._scheduler = Scheduler(context, settings.n_slots)
            self._goes_back = context.goes_back()
            if not self._goes_back and settings.method != "none":
                emit(
                    Notice(
                        f"{settings.target.path.name} is decoded plainly: its memory cannot go "
                        "back over rejected tokens",
                        hint="this llama.cpp supports no rollback for its architecture",
                    )
                )
            self._drafting = Drafting(
                settings,
                n_vocab=context.n_vocab,
                vocabulary=fingerprint(self._target.info.header),
                draft_cap=self._draft_cap(),
                open_draft=self._open_draft,
                measure_costs=self._measure_costs,
                notify=lambda notice: self._emit(notice),
            )
            # What the chosen method needs is loaded and measured now, not in the first answer.
            self._drafting.policy(settings.method, None, fixed=False, fresh=True)
        except BaseException:
            self.close()
            raise
        self._beyond_plan = learn_from_load(settings, free_before, _free_memory(settings))
        self._load_s = perf_counter() - begun

    @property
    def facts(self) -> dict[str, Any]:
        """What callers may want to show or plan with."""
        context = self._target.context
        return {
            "n_ctx": context.n_ctx,
            "n_vocab": context.n_vocab,
            "n_ctx_train": self._target.model.n_ctx_train,
            "description": self._target.model.description,
            "rollback": context.rollback.value,
            "draft_max": min(self._settings.draft_max, self._draft_cap()),
            "n_slots": self._settings.n_slots,
            "beyond_plan": self._beyond_plan,
            "load_s": self._load_s,
        }

    def generate(self, request: GenerateRequest, emit: Emit) -> Answer:
        """One answer, alone; `emit` gets its events. Raises what `begin` and its steps raise."""
        running = self.begin(request, emit, lambda: self._cancel.is_set)
        while True:
            for ended in self.step():
                if ended.running is running:
                    return ended.result()

    def begin(self, request: GenerateRequest, emit: Emit, is_stopped: IsStopped) -> Running:
        """Take up an answer in a free slot; `step` goes on with it until it has ended.

        is_stopped: asked between passes whether this answer is to end now.
        Raises PromptTooLong, TemplateError, UsageError, EngineError.
        """
        self._emit = emit
        settings = self._settings
        method = request.method or settings.method
        context = self._target.context
        if request.max_tokens is not None and request.max_tokens < 0:
            raise UsageError(f"--max-tokens {request.max_tokens} is negative")
        prompt = fit_prompt(
            request, self._builder, context.n_ctx, context_shift=settings.context_shift
        )
        notice = self._builder.take_notice()
        if notice is not None:
            emit(notice)
        slot = self._scheduler.choose(prompt.tokens)
        policy = self._drafting.policy(
            method,
            request.draft_max,
            fixed=request.fixed_length,
            fresh=request.fresh_caches,
            slot=slot,
            sampling=request.sampling,
        )
        if request.fresh_caches:
            context.clear(slot)
        sampler = Sampler(self._target.model.vocabulary, request.sampling, context.n_ctx)
        try:
            generation = Generation(
                context,
                sampler,
                SlotPolicy(policy, self._drafting.costs),
                self._builder,
                prompt,
                sequence=slot,
                method=method,
                draft_min=settings.draft_min,
                context_shift=settings.context_shift,
                is_stopped=is_stopped,
                watch=self._watch,
                emit=emit,
            )
        except BaseException:
            sampler.close()
            raise
        self._scheduler.add(generation)
        return generation

    def step(self) -> list[Ended]:
        """One pass of every answer that was begun; those that ended with it."""
        ended = []
        for settled in self._scheduler.step():
            generation = settled.generation
            try:
                if settled.error is not None:
                    ended.append(Ended(generation, None, settled.error))
                    continue
                name = self._settings.model_id or str(self._settings.target.path)
                ended.append(Ended(generation, generation.answer(name, self._load_s), None))
                self._load_s = 0.0
            finally:
                generation.close()
        if ended:
            self._drafting.answered()
        return ended

    @property
    def is_idle(self) -> bool:
        return self._scheduler.n_active == 0

    @property
    def has_free_slot(self) -> bool:
        return self._scheduler.has_free_slot

    def next_logits(
        self, request: GenerateRequest, continuation: Sequence[int], candidates: Sequence[int]
    ) -> tuple[float, ...]:
        """Logits of `candidates` after the request's prompt and `continuation`, every token of the
        latter in a pass of its own, as plain decoding has it. Replaces what memory held."""
        prompt, _ = self._builder.build(request)
        context = self._target.context
        context.clear()
        context.evaluate(prompt, Outputs.LAST)
        for token in continuation:
            context.evaluate([token], Outputs.LAST)
        return tuple(float(context.logits[0, token]) for token in candidates)

    def ask(self, question: Question) -> Any:
        return answer(question, self._target.model.vocabulary, self._builder)

    def embed(self, request: EmbedRequest) -> NoReturn:
        """Raises UsageError: see EmbeddingSession."""
        raise UsageError("the model was loaded for generating: it gives no embeddings")

    def explain(self) -> dict[str, Any]:
        return self._drafting.explain()

    def close(self) -> None:
        """Save what was learned and free everything. May be called twice."""
        if hasattr(self, "_scheduler"):
            self._scheduler.close()
        if hasattr(self, "_drafting"):
            self._drafting.save()
            self._drafting.close()
            if self._drafting.costs is not None and self._cost_path is not None:
                save_costs(self._cost_path, self._drafting.costs)
        if self._draft is not None:
            self._draft.close()
        self._target.close()

    def _draft_cap(self) -> int:
        """Most draft tokens in a round that the target's memory can take back."""
        context = self._target.context
        if not self._goes_back:
            return 0
        most = context.n_outputs_max - 1
        return min(most, context.rollback_rows) if context.rollback is Rollback.ROWS else most

    def _open_draft(self, slot: int) -> DraftModel:
        draft = self._settings.draft
        assert draft is not None
        if self._draft is None:
            self._draft = load_draft(
                self._settings,
                draft,
                self._target,
                self._log,
                self._cancel,
                lambda event: self._emit(event),
            )
        return DraftSequence(self._draft.context, slot)

    @property
    def _cost_path(self) -> Path | None:
        settings = self._settings
        if settings.cost_folder is None:
            return None
        return cost_path(
            settings.cost_folder,
            settings.target.path,
            [device.description for device in devices()],
            settings.n_threads or default_threads(),
            library_version(),
            settings.target.gpu_layers,
            settings.target.kv_type,
            settings.flash_attn,
        )

    def _measure_costs(self) -> CostCurve:
        path = self._cost_path
        context = self._target.context
        known = load_costs(path) if path is not None else None
        is_known = known is not None and known.max_width >= context.n_outputs_max
        if any(context.n_tokens(slot) for slot in range(self._settings.n_slots)):
            # In the middle of a conversation memory is worth more than a measurement.
            return known if known and is_known else CostCurve(max_width=context.n_outputs_max)
        widths = [w for w in (1, 2, 4, 8, 16, 32, 64, 128) if w < context.n_outputs_max]
        try:
            costs = probe_costs(context, [1] if is_known else [*widths, context.n_outputs_max])
        except Cancelled:
            context.clear()
            raise
        if known is not None and is_known:
            known.rescale(1, costs[1])
            return known
        return CostCurve(costs, max_width=context.n_outputs_max)


def _free_memory(settings: EngineSettings) -> dict[str, int]:
    """Free bytes by device, where a plan wants to be compared with them."""
    return {device.name: device.free for device in devices()} if settings.planned else {}
