"""The options about sampling, and the checked settings of the sampler chain made of them.

A command takes them as one parameter, `sampling: SamplingOptions`; the parser makes an option of
each field (`localspec.cli.parser`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.cli import options
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import UsageError


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """As they were typed."""

    temp: options.Temp = 0.8
    top_k: options.TopK = 40
    top_p: options.TopP = 0.95
    min_p: options.MinP = 0.05
    repeat_penalty: options.RepeatPenalty = 1.0
    seed: options.Seed = None


@dataclass(frozen=True, slots=True)
class RunSamplingOptions(SamplingOptions):
    """With everything else that llama.cpp's sampler knows."""

    grammar: options.Grammar = None
    sampler: options.SamplerSettings = None


@dataclass(frozen=True, slots=True)
class BenchSamplingOptions(SamplingOptions):
    """Answers that come out the same each time."""

    temp: options.Temp = 0.0
    seed: options.Seed = 1


def sampling_settings(typed: SamplingOptions) -> SamplingSettings:
    """Raises UsageError that names the first wrong value, or a grammar that cannot be read."""
    values: dict[str, Any] = {
        "temp": typed.temp,
        "top_k": typed.top_k,
        "top_p": typed.top_p,
        "min_p": typed.min_p,
        "repeat_penalty": typed.repeat_penalty,
        "seed": None if typed.seed == -1 else typed.seed,
    }
    if isinstance(typed, RunSamplingOptions):
        if typed.grammar is not None:
            values["grammar"] = _read_grammar(typed.grammar)
        values |= dict(map(_sampler_setting, typed.sampler or ()))
    settings = SamplingSettings(**values)
    settings.check()
    return settings


def stop_strings(values: Sequence[str]) -> tuple[str, ...]:
    r"""Stop strings as typed; `\n` and `\t` stand for themselves, since shells make them hard.

    Raises UsageError for an empty one, which would stand before every text.
    """
    if not all(values):
        raise UsageError("--stop '' is empty", hint='the text to stop before, such as --stop "###"')
    return tuple(value.replace("\\n", "\n").replace("\\t", "\t") for value in values)


def _sampler_setting(item: str) -> tuple[str, int | float]:
    kinds = {
        field.name: type(field.default)
        for field in dataclasses.fields(SamplingSettings)
        if isinstance(field.default, int | float)
    }
    name, _, value = item.partition("=")
    key = name.strip().replace("-", "_")
    shown = [kind.replace("_", "-") for kind in kinds]
    if key not in kinds:
        from localspec.cli.call import nearest

        raise UsageError(
            f"--sampler {item!r} is not known",
            hint=nearest(name, shown) + f"NAME=VALUE with one of {', '.join(shown)}",
        )
    example = f"--sampler {key.replace('_', '-')}={'4' if kinds[key] is int else '0.5'}"
    if not value.strip():
        raise UsageError(f"--sampler {item!r} has no value", hint=f"like {example}")
    try:
        number = kinds[key](value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        wanted = "a whole number" if kinds[key] is int else "a number"
        raise UsageError(f"--sampler {item!r}: {value!r} is not {wanted}", hint=f"like {example}")
    return key, number


def _read_grammar(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"--grammar {path}: {reason}", hint="a text file in GBNF") from error
