"""The call that every kind of context is made by."""

from __future__ import annotations

from typing import Any

from llama_cpp import llama_cpp as lib

from localspec.errors import EngineError
from localspec.llama.cancel import CancelFlag
from localspec.llama.log import NativeLog
from localspec.llama.model import Model


def create_context(
    model: Model,
    params: Any,
    cancel: CancelFlag,
    log: NativeLog,
    *,
    what: str,
    hint: str,
    **fields: int,
) -> Any:
    """A `llama_context` of `model`, to be freed by the caller; `cancel` stops its passes.

    params: `llama_context_params` with what differs between contexts. what, hint, fields: of the
    EngineError that is raised, with llama.cpp's reason, when it cannot be made.
    """
    params.swa_full = False
    params.kv_unified = True
    params.no_perf = True
    params.abort_callback = cancel.callback
    params.abort_callback_data = cancel.data
    log.clear()
    handle = lib.llama_init_from_model(model.handle, params)
    if not handle:
        raise EngineError(
            f"llama.cpp cannot create {what} for {model.path.name}: "
            f"{log.reason() or 'it gave no reason'}",
            hint=hint,
            **fields,
        )
    return handle
