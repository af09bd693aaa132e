"""From a body to sampler settings, stop strings and lengths; defaults are the server's."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from localspec.decoding.sampling import SamplingSettings
from localspec.errors import UsageError
from localspec.server.bodies import ManyBody, SamplingBody
from localspec.server.failures import invalid
from localspec.server.json_schema import SchemaError, grammar_for

_SAME_NAME = (
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
)
_SEED_BITS = 2**32


def sampling_for(
    body: SamplingBody, defaults: SamplingSettings, *, n_vocab: int, grammar: str = ""
) -> SamplingSettings:
    """grammar: GBNF that the request asks for by other means (response_format, tools).

    Raises ApiError 400.
    """
    values: dict[str, Any] = {
        name: value for name in _SAME_NAME if (value := getattr(body, name)) is not None
    }
    if body.temperature is not None:
        values["temp"] = body.temperature
    if body.dry_sequence_breakers is not None:
        values["dry_sequence_breakers"] = tuple(body.dry_sequence_breakers)
    if body.seed is not None:
        # -1 asks for a new seed each time, as in llama.cpp; others keep their lowest 32 bits.
        values["seed"] = None if body.seed == -1 else body.seed % _SEED_BITS
    if isinstance(body, ManyBody) and body.logit_bias:
        values["logit_bias"] = _biases(body.logit_bias, n_vocab)
    values["grammar"] = _grammar(body, grammar)
    settings = replace(defaults, **values)
    try:
        settings.check()
    except UsageError as error:
        raise invalid(f"{error.message} ({error.hint})", error.fields.get("option")) from None
    return settings


def for_choice(settings: SamplingSettings, index: int) -> SamplingSettings:
    """Settings of the answer number `index`: with one seed, answers would all be the same."""
    if index == 0:
        return settings
    seed = secrets.randbits(32) if settings.seed is None else settings.seed + index
    return replace(settings, seed=seed % _SEED_BITS)


def stops_of(stop: str | list[str] | None) -> tuple[str, ...]:
    """Raises ApiError 400 for an empty stop string, which would end every answer at once."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if any(not text for text in stops):
        raise invalid("stop: a stop string must not be empty", "stop", "invalid_value")
    return stops


def length_of(*wanted: int | None) -> int | None:
    """The first length that was asked for; -1 is without a limit."""
    length = next((value for value in wanted if value is not None), None)
    return None if length == -1 else length


def schema_grammar(schema: Any, param: str) -> str:
    """Raises ApiError 400 for a schema that no grammar can express."""
    try:
        return grammar_for(schema)
    except SchemaError as error:
        raise invalid(f"{param}: {error}", param, "invalid_schema") from None


def _grammar(body: SamplingBody, grammar: str) -> str:
    given = [name for name in ("grammar", "json_schema") if getattr(body, name) is not None]
    if len(given) + bool(grammar) > 1:
        name = given[-1]
        raise invalid(f"{name}: the answer can follow one grammar only", name, "invalid_value")
    if body.json_schema is not None:
        return schema_grammar(body.json_schema, "json_schema")
    if body.grammar is not None and "\0" in body.grammar:
        raise invalid("grammar: it must not have NUL characters", "grammar", "invalid_value")
    return body.grammar or grammar


def _biases(given: dict[str, float], n_vocab: int) -> tuple[tuple[int, float], ...]:
    if len(given) > 1024:
        raise invalid("logit_bias: more than 1024 tokens", "logit_bias", "invalid_value")
    found = []
    for name, bias in given.items():
        if not (name.isascii() and name.isdecimal() and len(name) < 10) or int(name) >= n_vocab:
            raise invalid(
                f"logit_bias: {name[:40]!r} is no token of this model ({n_vocab} tokens)",
                "logit_bias",
                "invalid_value",
            )
        if not -100.0 <= bias <= 100.0:
            raise invalid(
                f"logit_bias: {bias} is not between -100 and 100", "logit_bias", "invalid_value"
            )
        found.append((int(name), bias))
    return tuple(found)
