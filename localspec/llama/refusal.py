"""What the result codes of `llama_decode` and `llama_encode` mean (llama.h)."""

from __future__ import annotations

from localspec.errors import Cancelled, EngineError
from localspec.llama.log import NativeLog

_REASONS = {
    1: "no room in the context",
    -1: "the batch is not valid",
    -2: "memory for the pass could not be allocated",
    -3: "the computation failed",
}


def refusal(code: int, n_tokens: int, log: NativeLog) -> Cancelled | EngineError:
    """The error for a pass over `n_tokens` that was refused with `code`, which is not 0."""
    if code == 2:
        return Cancelled("the pass was cancelled")
    reason = _REASONS.get(code, "unknown reason")
    return EngineError(
        f"llama.cpp refused a pass over {n_tokens} tokens: {reason} (code {code})"
        + (f"; {log.reason()}" if log.reason() else ""),
        code=code,
    )
