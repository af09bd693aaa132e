"""Laying the user's models.toml over the one that ships."""

from __future__ import annotations

from typing import Any

_SOURCE_KEYS = ("repo", "filename", "revision", "wheels", "path")
_OF_THE_FILE = ("name", "sha256", "size")


def overlay(base: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """`base` with the tables of `user` over it, key by key; neither is changed.

    A model whose source the user changes loses what was said of the old file: a hash of another
    file would refuse every download. Anything that is not a table is laid over as it stands, for
    the schema to judge.
    """
    merged: dict[str, Any] = {**base, **user}
    for kind in ("models", "pairs"):
        if not isinstance(user.get(kind), dict):
            continue
        tables = dict(base.get(kind, {}))
        for name, table in user[kind].items():
            below = tables.get(name)
            if isinstance(below, dict) and isinstance(table, dict):
                tables[name] = _merge_table(kind, below, table)
            else:
                tables[name] = table
        merged[kind] = tables
    return merged


def _merge_table(kind: str, below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    kept = dict(below)
    if kind == "models" and any(key in above for key in _SOURCE_KEYS):
        dropped: tuple[str, ...] = _OF_THE_FILE
        if any(key in above for key in ("repo", "wheels", "path")):
            dropped = (*_SOURCE_KEYS, *_OF_THE_FILE)
        kept = {key: value for key, value in below.items() if key not in dropped}
    # A pair that turns to the n-gram drafter has no use for the draft it had.
    if kind == "pairs" and above.get("method") == "ngram":
        kept.pop("draft", None)
    return {**kept, **above}
