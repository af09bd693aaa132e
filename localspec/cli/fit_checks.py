"""What `fit` refuses, in the words of `run`: no answer about settings that nothing would load.

The bounds are those of `localspec.engine.loading`, which cannot be imported here: it brings
llama.cpp, which `fit` asks in a process of its own.
"""

from __future__ import annotations

import math
from pathlib import Path

from localspec.errors import UsageError
from localspec.ggufmeta.ggml_types import KV_TYPES
from localspec.memory.request import LoadOptions

LEAST_CTX = 256


def check_options(options: LoadOptions, draft_max: int | None) -> None:
    """Raises UsageError that names the first option out of range.

    draft_max: None is the pair's own.
    """
    for option, kv_type in (
        ("--kv-type", options.kv_type),
        ("--draft-kv-type", options.draft_kv_type),
    ):
        if kv_type not in KV_TYPES:
            raise UsageError(
                f"{option} {kv_type!r} is not a type of KV cache",
                hint=f"one of {', '.join(KV_TYPES)}",
            )
    for name, value, low, high in (
        ("--ctx", options.n_ctx or 0, 0, 2**31 - 1),
        ("--batch", options.n_batch, 1, 2**16),
        ("--ubatch", options.n_ubatch, 1, 2**16),
        ("--draft-max", 1 if draft_max is None else draft_max, 1, 256),
    ):
        if not low <= value <= high:
            raise UsageError(f"{name} {value} is out of range", hint=f"from {low} to {high}")
    if options.n_ctx is not None and options.n_ctx < LEAST_CTX:
        raise UsageError(
            f"--ctx {options.n_ctx} is too small", hint=f"llama.cpp's least is {LEAST_CTX}"
        )
    if options.experts_on_cpu < 0:
        raise UsageError(
            f"--cpu-moe {options.experts_on_cpu} is out of range", hint="a number of layers, or 0"
        )


def check_draft(method: str, *, has_draft: bool) -> None:
    """Raises UsageError where a draft model is demanded and there is none."""
    if method == "model" and not has_draft:
        raise UsageError(
            "--draft model needs a draft model, and this model has none",
            hint="name one: --draft PATH or --draft OWNER/REPO; or use --draft ngram",
        )


def parse_shares(text: str, n_cards: int) -> tuple[float, ...]:
    """`3,1` as shares of so many cards. Raises UsageError."""
    if not text:
        return ()
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(
            f"--tensor-split {text!r} is not a list of numbers", hint="write it like 3,1"
        ) from error
    if not all(math.isfinite(share) for share in shares):
        raise UsageError(
            f"--tensor-split {text!r} is not a list of numbers", hint="write it like 3,1"
        )
    if min(shares) < 0 or sum(shares) <= 0:
        raise UsageError(f"--tensor-split {text!r} gives no card a share", hint="write it like 3,1")
    if len(shares) > n_cards:
        raise UsageError(
            f"--tensor-split {text!r} has {len(shares)} shares, the machine has {n_cards} cards",
            hint="one share for each card, in their order",
        )
    return shares


def projector_bytes(path: Path | None) -> int:
    """Bytes of the projector's file, 0 without one. Raises UsageError, BadModelFile."""
    from localspec.ggufmeta.header import read_header

    if path is None:
        return 0
    if not path.is_file():
        raise UsageError(f"--mmproj {path}: no such file", hint="a .gguf file of a projector")
    read_header(path)
    return path.stat().st_size
