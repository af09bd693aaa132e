"""What `fit` refuses, as `run` does: no answer about settings that nothing would load."""

from __future__ import annotations

from pathlib import Path

from localspec.engine.bounds import check_settings
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.errors import UsageError
from localspec.memory.request import LoadOptions


def check_options(options: LoadOptions, draft_max: int | None, flash_attn: str = "auto") -> None:
    """Raises UsageError that names the first option out of range.

    draft_max: None is the pair's own.
    """
    nowhere = Path()
    check_settings(
        EngineSettings(
            ModelSettings(nowhere, kv_type=options.kv_type, experts_on_cpu=options.experts_on_cpu),
            draft=ModelSettings(nowhere, kv_type=options.draft_kv_type),
            draft_max=1 if draft_max is None else draft_max,
            n_ctx=options.n_ctx or 0,
            n_batch=options.n_batch,
            n_ubatch=options.n_ubatch,
            flash_attn=flash_attn,
        )
    )


def check_draft(method: str, *, has_draft: bool) -> None:
    """Raises UsageError where a draft model is demanded and there is none."""
    if method == "model" and not has_draft:
        raise UsageError(
            "--draft model needs a draft model, and this model has none",
            hint="name one: --draft PATH or --draft OWNER/REPO; or use --draft ngram",
        )


def projector_bytes(path: Path | None) -> int:
    """Bytes of the projector's file, 0 without one. Raises UsageError, BadModelFile."""
    from localspec.ggufmeta.header import read_header

    if path is None:
        return 0
    if not path.is_file():
        raise UsageError(f"--mmproj {path}: no such file", hint="a .gguf file of a projector")
    read_header(path)
    return path.stat().st_size
