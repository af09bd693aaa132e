"""What settings may be: checked before anything loads, without llama.cpp."""

from __future__ import annotations

from localspec.engine.settings import EngineSettings
from localspec.errors import UsageError
from localspec.ggufmeta.ggml_types import BY_NAME, KV_TYPES

LEAST_CTX = 256
"""llama.cpp rounds every context up to a multiple of this (llama-context.cpp)."""
FLASH_ATTENTION: dict[str, bool | None] = {"on": True, "off": False, "auto": None}
"""What can be written, and what it is in a plan (`LoadOptions.flash_attn`)."""


def check_settings(settings: EngineSettings) -> None:
    """Raises UsageError that names the first setting out of range."""
    if settings.flash_attn not in FLASH_ATTENTION:
        raise UsageError(
            f"--flash-attn {settings.flash_attn!r} is not known", hint="on, off or auto"
        )
    for option, kv_type in (
        ("--kv-type", settings.target.kv_type),
        ("--draft-kv-type", settings.draft.kv_type if settings.draft else "f16"),
    ):
        check_kv_type(option, kv_type, flash_attn=settings.flash_attn)
    for option, value, low, high in (
        ("--ctx", settings.n_ctx, 0, 2**31 - 1),
        ("--batch", settings.n_batch, 1, 2**16),
        ("--ubatch", settings.n_ubatch, 1, 2**16),
        ("--threads", settings.n_threads, 0, 1024),
        ("--slots", settings.n_slots, 1, 64),
        ("--draft-max", settings.draft_max, 1, 256),
        ("--draft-min", settings.draft_min, 0, 256),
        ("--n-cpu-moe", settings.target.experts_on_cpu, 0, 2**31 - 1),
    ):
        if not low <= value <= high:
            raise UsageError(f"{option} {value} is out of range", hint=f"from {low} to {high}")
    if 0 < settings.n_ctx < LEAST_CTX:
        raise UsageError(
            f"--ctx {settings.n_ctx} is too small", hint=f"llama.cpp's least is {LEAST_CTX}"
        )
    if settings.draft_min > settings.draft_max:
        raise UsageError(
            f"--draft-min {settings.draft_min} is more than --draft-max {settings.draft_max}",
            hint="no draft could ever be long enough",
        )
    if not 0.0 <= settings.p_min <= 1.0:
        raise UsageError(f"--p-min {settings.p_min} is out of range", hint="from 0.0 to 1.0")


def check_kv_type(option: str, kv_type: str, *, flash_attn: str) -> None:
    """Raises UsageError for a type that a cache cannot have, or not without flash attention."""
    if kv_type not in KV_TYPES:
        raise UsageError(
            f"{option} {kv_type!r} is not a type of KV cache", hint=f"one of {', '.join(KV_TYPES)}"
        )
    if BY_NAME[kv_type].block > 1 and flash_attn == "off":
        raise UsageError(
            f"{option} {kv_type} needs flash attention",
            hint=f"--flash-attn on, or {option} f16",
        )
