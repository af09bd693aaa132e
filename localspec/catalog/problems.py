"""What is wrong in a models.toml: every problem, with its key path and the nearest spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localspec.catalog.nearest import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError

_KEYS = {
    "": ("schema", "models", "pairs"),
    "models": (
        "name",
        "repo",
        "filename",
        "revision",
        "wheels",
        "path",
        "sha256",
        "size",
        "license",
    ),
    "pairs": ("method", "target", "draft", "draft_max", "p_min", "note", "reported"),
    "wheels": ("requirement", "member"),
    "reported": ("figure", "source"),
}
_TEXTS = {
    "missing": "is missing",
    "dict_type": "is not a table",
    "model_type": "is not a table",
    "list_type": "is not a list",
    "string_type": "is not a text",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
}
_PATTERNS = {
    "sha256": "is not a sha256 (64 lower-case hex digits)",
    "repo": "is not a repository (owner/name)",
    "requirement": "is not a pinned requirement (name==version)",
}


def key_path(loc: tuple[str | int, ...]) -> str:
    """`pairs."qwen3-8b+0.6b".draft` for a location; bare where TOML allows it bare."""
    parts = []
    for part in loc:
        if isinstance(part, int):
            parts.append(f"[{part}]")
            continue
        bare = bool(part) and all(c.isascii() and (c.isalnum() or c in "_-") for c in part)
        parts.append(("." if parts else "") + (part if bare else f'"{part}"'))
    return "".join(parts)


def schema_problems(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Location and text of every problem that pydantic found."""
    return [(entry["loc"], _text(entry)) for entry in error.errors(include_url=False)]


def reference_problems(data: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Pairs that name a model which is not there; works on data that fails the schema too."""
    models, pairs = data.get("models"), data.get("pairs")
    if not isinstance(models, dict) or not isinstance(pairs, dict):
        return []
    found: list[tuple[tuple[str | int, ...], str]] = []
    for pair_id, pair in pairs.items():
        for role in ("target", "draft"):
            wanted = pair.get(role) if isinstance(pair, dict) else None
            if isinstance(wanted, str) and wanted not in models:
                near = did_you_mean(wanted, models)
                found.append((("pairs", pair_id, role), _join(f"no model named {wanted!r}", near)))
    return found


def _text(entry: Any) -> str:
    loc, kind, value = entry["loc"], entry["type"], entry["input"]
    last = str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        return _join("is not a known key", did_you_mean(last, _known_keys(loc)))
    if loc == ("schema",) and kind != "missing":
        return f"{_short(value)} is not a layout that this version knows (1)"
    if kind == "string_pattern_mismatch":
        return f"{_short(value)} {_PATTERNS.get(last, 'has a character that may not stand here')}"
    if kind == "literal_error":
        choices = entry["ctx"]["expected"]
        near = did_you_mean(str(value), choices.replace("'", "").replace(" or ", ", ").split(", "))
        return _join(f"{_short(value)} is not one of {choices}", near)
    if kind == "value_error":
        return str(entry["ctx"]["error"])
    if kind in _TEXTS:
        shown = "" if kind == "missing" else f"{_short(value)} "
        return f"{shown}{_TEXTS[kind]}"
    return f"{_short(value)}: {entry['msg'].lower()}"


def _known_keys(loc: tuple[str | int, ...]) -> tuple[str, ...]:
    if len(loc) < 2:
        return _KEYS[""]
    if len(loc) == 3:
        return _KEYS.get(str(loc[0]), ())
    return _KEYS.get(str(loc[2]), ())


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _join(text: str, more: str) -> str:
    return f"{text} ({more})" if more else text
