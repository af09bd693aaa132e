"""The options of `run`, `serve` and `bench` about speculation, model and memory, and what the
engine makes of them.

A command takes them as one parameter, `engine: EngineOptions`; the parser makes an option of each
field (`localspec.cli.parser`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec.cli import options
from localspec.engine.settings import DRAFT_METHODS, EngineSettings, ModelSettings
from localspec.errors import UsageError
from localspec.paths import Paths

if TYPE_CHECKING:
    from localspec.cli.output import Output
    from localspec.cli.run_models import ReadyModels

ALL_EXPERTS = 2**31 - 1
"""More layers than any model has: the experts of all of them."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """As they were typed. Values are checked where settings are made of them."""

    draft: options.Draft = "auto"
    draft_max: options.DraftMax = None
    draft_min: options.DraftMin = 0
    p_min: options.PMin = None
    lookup_static: options.LookupStatic = None
    ctx: options.Ctx = "auto"
    kv_type: options.KvType = "f16"
    draft_kv_type: options.DraftKvType = "f16"
    gpu_layers: options.GpuLayers = "auto"
    draft_gpu_layers: options.DraftGpuLayers = "auto"
    cpu_moe: options.CpuMoe = False
    n_cpu_moe: options.NCpuMoe = 0
    tensor_split: options.TensorSplit = ""
    threads: options.Threads = 0
    batch: options.Batch = 2048
    ubatch: options.Ubatch = 512
    flash_attn: options.FlashAttn = "auto"
    force: options.Force = False


@dataclass(frozen=True, slots=True)
class ChatEngineOptions(EngineOptions):
    """With what only commands have that talk to people: learning, and going on for ever."""

    lookup_dynamic: options.LookupDynamic = None
    context_shift: options.ContextShift = False


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What `--draft` asks for."""

    method: str
    """One of DRAFT_METHODS."""
    model: str | None
    """Name of a draft model other than the pair's own."""

    @property
    def wants_model(self) -> bool:
        """Whether a draft model is to be loaded, if there is one."""
        return self.method in ("model", "auto")


def settings_for(name: str, typed: EngineOptions, output: Output, paths: Paths) -> EngineSettings:
    """What to load for MODEL, whose files are fetched if the user agrees.

    Raises UsageError, BadModelFile, DownloadError.
    """
    from localspec.cli.run_models import ReadyModels, prepare_models

    # A wrong option is told now, not after the models have been downloaded.
    engine_settings(ReadyModels(name, Path(), Path(), None, None), typed, paths)
    models = prepare_models(name, parse_draft(typed.draft), output, paths)
    return engine_settings(models, typed, paths)


def engine_settings(models: ReadyModels, typed: EngineOptions, paths: Paths) -> EngineSettings:
    """Everything the engine needs to load. Options win over the pair, the pair over defaults.

    Raises UsageError for values that no model could take.
    """
    from localspec.engine.bounds import check_settings

    defaults = EngineSettings(ModelSettings(models.target))
    dynamic, shift = None, False
    if isinstance(typed, ChatEngineOptions):
        dynamic, shift = typed.lookup_dynamic, typed.context_shift
    static = typed.lookup_static
    if static is not None and not static.is_file():
        raise UsageError(
            f"--lookup-static {static}: no such file", hint="make one: localspec cache build"
        )
    shares = parse_shares(typed.tensor_split)
    draft = None
    if models.draft is not None:
        layers = parse_gpu_layers(typed.draft_gpu_layers, "--draft-gpu-layers")
        draft = ModelSettings(models.draft, layers, typed.draft_kv_type, tensor_split=shares)
    settings = EngineSettings(
        target=ModelSettings(
            models.target,
            parse_gpu_layers(typed.gpu_layers),
            typed.kv_type,
            experts_on_cpu=experts_on_cpu(all_=typed.cpu_moe, layers=typed.n_cpu_moe),
            tensor_split=shares,
        ),
        model_id=models.id,
        draft=draft,
        method=parse_draft(typed.draft).method,
        draft_max=_first(typed.draft_max, models.draft_max, defaults.draft_max),
        draft_min=typed.draft_min,
        p_min=_first(typed.p_min, models.p_min, defaults.p_min),
        n_ctx=parse_ctx(typed.ctx),
        n_batch=typed.batch,
        n_ubatch=typed.ubatch,
        n_threads=typed.threads,
        flash_attn=typed.flash_attn,
        context_shift=shift,
        lookup_static=static,
        lookup_dynamic=Path(dynamic) if dynamic not in (None, "off") else None,
        lookup_folder=paths.lookup if dynamic is None else None,
        cost_folder=paths.costs,
        calibration=paths.calibration,
    )
    check_settings(settings)
    return settings


def parse_draft(value: str) -> DraftChoice:
    """`none`, `ngram`, `model`, `auto`, or the name of a draft model."""
    if value in DRAFT_METHODS:
        return DraftChoice(value, None)
    if not any(sign in value for sign in "/\\.:") and not Path(value).exists():
        from localspec.cli.call import nearest

        raise UsageError(
            f"--draft {value!r} is neither a method nor a model",
            hint=nearest(value, DRAFT_METHODS) + f"methods: {', '.join(DRAFT_METHODS)}; "
            "or a path, or owner/repo[:file]",
        )
    return DraftChoice("model", value)


def parse_ctx(value: str) -> int:
    """Tokens of context: `8192`, `32k`, or `auto` for 0. Raises UsageError."""
    text = value.strip().lower()
    if text == "auto":
        return 0
    factor = 1024 if text.endswith("k") else 1
    digits = text[:-1] if factor > 1 else text
    if not digits.isdecimal() or int(digits) < 1:
        raise UsageError(
            f"--ctx {value!r} is not a number of tokens", hint="write it like 8192, 32k or auto"
        )
    return int(digits) * factor


def parse_gpu_layers(value: str, option: str = "--gpu-layers") -> int | None:
    """Layers on the GPU; None for `all` and `auto`. Raises UsageError."""
    text = value.strip().lower()
    if text in ("all", "auto"):
        return None
    if not text.isdecimal():
        raise UsageError(
            f"{option} {value!r} is not a number of layers", hint="a number, all or auto"
        )
    return int(text)


def parse_shares(text: str) -> tuple[float, ...]:
    """`3,1` as shares by card; how many cards there are is checked with the machine.

    Raises UsageError.
    """
    if not text:
        return ()
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = (math.nan,)
    if not all(math.isfinite(share) for share in shares):
        raise UsageError(
            f"--tensor-split {text!r} is not a list of numbers", hint="write it like 3,1"
        )
    if min(shares) < 0 or sum(shares) <= 0:
        raise UsageError(f"--tensor-split {text!r} gives no card a share", hint="write it like 3,1")
    return shares


def experts_on_cpu(*, all_: bool, layers: int) -> int:
    """Layers whose experts stay in host memory. Raises UsageError where both options are given."""
    if all_ and layers:
        raise UsageError(
            "--cpu-moe and --n-cpu-moe exclude each other",
            hint="--cpu-moe is for all layers, --n-cpu-moe N for the first N",
        )
    return ALL_EXPERTS if all_ else layers


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
