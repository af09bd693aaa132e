"""From option values to settings: how to load, how to sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.decoding.sampling import SamplingSettings
from localspec.engine.settings import DRAFT_METHODS, EngineSettings, ModelSettings
from localspec.errors import UsageError
from localspec.paths import Paths


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


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The values of the options in the groups Speculation, and Model and memory."""

    draft_max: int | None = None
    draft_min: int = 0
    p_min: float | None = None
    lookup_static: Path | None = None
    lookup_dynamic: str | None = None
    ctx: str = "auto"
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    gpu_layers: str = "auto"
    draft_gpu_layers: str = "auto"
    threads: int = 0
    batch: int = 2048
    ubatch: int = 512
    flash_attn: str = "auto"
    context_shift: bool = False


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


def engine_settings(
    model_id: str,
    target: Path,
    draft: Path | None,
    method: str,
    options: LoadOptions,
    paths: Paths,
    *,
    pair_draft_max: int | None = None,
    pair_p_min: float | None = None,
) -> EngineSettings:
    """Everything the engine needs to load. Options win over the pair, the pair over defaults.

    Raises UsageError for values that no model could take; the engine checks the rest.
    """
    defaults = EngineSettings(ModelSettings(target))
    static = options.lookup_static
    if static is not None and not static.is_file():
        raise UsageError(
            f"--lookup-static {static}: no such file", hint="make one: localspec cache build"
        )
    dynamic = options.lookup_dynamic
    keeps_own = dynamic is None
    draft_settings = None
    if draft is not None:
        layers = parse_gpu_layers(options.draft_gpu_layers, "--draft-gpu-layers")
        draft_settings = ModelSettings(draft, layers, options.draft_kv_type)
    return EngineSettings(
        target=ModelSettings(target, parse_gpu_layers(options.gpu_layers), options.kv_type),
        model_id=model_id,
        draft=draft_settings,
        method=method,
        draft_max=_first(options.draft_max, pair_draft_max, defaults.draft_max),
        draft_min=options.draft_min,
        p_min=_first(options.p_min, pair_p_min, defaults.p_min),
        n_ctx=parse_ctx(options.ctx),
        n_batch=options.batch,
        n_ubatch=options.ubatch,
        n_threads=options.threads,
        flash_attn=options.flash_attn,
        context_shift=options.context_shift,
        lookup_static=static,
        lookup_dynamic=Path(dynamic) if dynamic not in (None, "off") else None,
        lookup_folder=paths.lookup if keeps_own else None,
        cost_folder=paths.costs,
        calibration=paths.calibration,
    )


def sampling_settings(
    *,
    temp: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repeat_penalty: float,
    seed: int | None,
    grammar: Path | None,
    others: Sequence[str] = (),
) -> SamplingSettings:
    """Checked settings of the sampler chain. others: `name=value` pairs.

    Raises UsageError that names the first wrong value, or a grammar that cannot be read.
    """
    values: dict[str, Any] = {
        "temp": temp,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repeat_penalty": repeat_penalty,
        "seed": None if seed == -1 else seed,
        "grammar": _read_grammar(grammar) if grammar is not None else "",
    }
    for item in others:
        name, value = _sampler_setting(item)
        values[name] = value
    settings = SamplingSettings(**values)
    settings.check()
    return settings


def stop_strings(values: Sequence[str]) -> tuple[str, ...]:
    r"""Stop strings as typed; `\n` and `\t` stand for themselves, since shells make them hard."""
    return tuple(value.replace("\\n", "\n").replace("\\t", "\t") for value in values if value)


def _sampler_setting(item: str) -> tuple[str, int | float]:
    kinds = {
        field.name: type(field.default)
        for field in dataclasses.fields(SamplingSettings)
        if isinstance(field.default, int | float)
    }
    name, equals, value = item.partition("=")
    key = name.strip().replace("-", "_")
    shown = [kind.replace("_", "-") for kind in kinds]
    if key not in kinds or not equals:
        from localspec.cli.call import nearest

        raise UsageError(
            f"--sampler {item!r} is not known",
            hint=nearest(name, shown) + f"NAME=VALUE with one of {', '.join(shown)}",
        )
    try:
        return key, kinds[key](value)
    except ValueError as error:
        raise UsageError(
            f"--sampler {item!r}: {value!r} is not a number", hint=f"like {name}=0.5"
        ) from error


def _read_grammar(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"--grammar {path}: {reason}", hint="a text file in GBNF") from error


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
