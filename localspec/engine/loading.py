"""From settings to loaded models and contexts: checks first, then weights, then memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psutil

from localspec.engine.huge_pages import copies_weights
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.engine.threads import default_threads
from localspec.errors import BadModelFile, Cancelled
from localspec.events import LoadProgress
from localspec.ggufmeta.compatibility import require_pair
from localspec.ggufmeta.runnable import ModelInfo, check_runnable
from localspec.llama.cancel import CancelFlag
from localspec.llama.capabilities import devices
from localspec.llama.context import Context, ContextOptions
from localspec.llama.log import NativeLog
from localspec.llama.model import LoadOptions, Model

DEFAULT_CTX = 8192
"""Tokens of context when nobody asks for another number and the model allows as many."""
MAX_ROLLBACK_ROWS = 8
"""Each row costs a whole recurrent state, so drafts of such models are kept short."""


@dataclass(slots=True)
class Loaded:
    """One model with its context; owns both."""

    info: ModelInfo
    model: Model
    context: Context

    def close(self) -> None:
        self.context.close()
        self.model.close()


def load_target(
    settings: EngineSettings,
    log: NativeLog,
    cancel: CancelFlag,
    on_event: Callable[[LoadProgress], None],
) -> Loaded:
    """The target with room for a round's rows of logits."""
    info = check_runnable(settings.target.path)
    model = _load_model(settings.target, "target", log, cancel, on_event)
    try:
        n_ctx = settings.n_ctx or min(model.n_ctx_train or DEFAULT_CTX, DEFAULT_CTX)
        # Answers that are decoded together share the rows of one round.
        rows = max(1 + settings.draft_max, settings.n_slots)
        context = Context(
            model,
            _context_options(settings, settings.target, n_ctx, n_outputs_max=rows),
            cancel,
            log,
        )
    except BaseException:
        model.close()
        raise
    return Loaded(info, model, context)


def load_draft(
    settings: EngineSettings,
    draft: ModelSettings,
    target: Loaded,
    log: NativeLog,
    cancel: CancelFlag,
    on_event: Callable[[LoadProgress], None],
) -> Loaded:
    """The draft model, with as much context as the target has.

    Raises IncompatiblePair when the vocabularies differ.
    """
    info = check_runnable(draft.path)
    require_pair(target.info.header, info.header)
    model = _load_model(draft, "draft", log, cancel, on_event)
    try:
        # llama.cpp wants a row for every sequence, though slots ask for theirs one by one.
        options = _context_options(
            settings, draft, target.context.n_ctx, n_outputs_max=settings.n_slots
        )
        context = Context(model, options, cancel, log)
    except BaseException:
        model.close()
        raise
    return Loaded(info, model, context)


def load_weights(
    settings: ModelSettings,
    role: str,
    log: NativeLog,
    cancel: CancelFlag,
    on_event: Callable[[LoadProgress], None],
) -> Model:
    """Any model, whatever it is good for. Raises BadModelFile, Cancelled."""
    reported = -1.0

    def progress(fraction: float) -> bool:
        nonlocal reported
        if fraction - reported >= 0.01 or fraction >= 1.0:
            reported = fraction
            on_event(LoadProgress(role, fraction))
        return not cancel.is_set

    options = LoadOptions(
        gpu_layers=settings.gpu_layers,
        tensor_split=settings.tensor_split,
        experts_on_cpu=settings.experts_on_cpu,
        use_mmap=not copies_weights(
            settings.path, psutil.virtual_memory().available, [device.kind for device in devices()]
        ),
    )
    model = Model(settings.path, options, log, progress)
    if cancel.is_set:
        model.close()
        raise Cancelled("loading was cancelled")
    return model


def _load_model(
    settings: ModelSettings,
    role: str,
    log: NativeLog,
    cancel: CancelFlag,
    on_event: Callable[[LoadProgress], None],
) -> Model:
    model = load_weights(settings, role, log, cancel, on_event)
    if model.has_encoder or not model.has_decoder or model.is_diffusion:
        model.close()
        raise BadModelFile(
            f"{settings.path.name} does not generate text token by token",
            hint="a model for chat or completion is needed",
        )
    return model


def _context_options(
    settings: EngineSettings, model: ModelSettings, n_ctx: int, *, n_outputs_max: int
) -> ContextOptions:
    threads = settings.n_threads or default_threads()
    is_target = model is settings.target
    return ContextOptions(
        n_ctx=n_ctx,
        n_batch=max(settings.n_batch, n_outputs_max),
        n_ubatch=max(settings.n_ubatch, n_outputs_max),
        n_seq_max=settings.n_slots,
        n_outputs_max=n_outputs_max,
        # A draft model's own passes are one token wide, so it goes back by a saved state instead.
        rollback_rows=min(settings.draft_max, MAX_ROLLBACK_ROWS) if is_target else 0,
        n_threads=threads,
        n_threads_batch=threads,
        kv_type_k=model.kv_type,
        kv_type_v=model.kv_type,
        flash_attn=settings.flash_attn,
    )
