"""References and `allOf`: a JSON schema made flat, one level at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MOST_MERGES = 200
ANNOTATIONS = frozenset(
    {
        "$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description",
        "default", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding",
        "contentMediaType", "discriminator", "externalDocs", "xml", "example", "strict",
    }
)  # fmt: skip
"""Keywords that say nothing about which values are valid."""
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


class SchemaError(ValueError):
    """A schema that is broken, that nothing fits, or that no grammar can express."""


class Flattener:
    """Resolves within one document; nothing is ever fetched."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._merges = 0

    def target(self, ref: Any) -> Any:
        """What `#/...` points to. Raises SchemaError."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise SchemaError(f"$ref {str(ref)[:80]!r} leads out of the schema")
        here = self._document
        for step in filter(None, ref[1:].split("/")):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(here, Mapping) and key in here:
                here = here[key]
            elif isinstance(here, list) and key.isdecimal() and int(key[:9]) < len(here):
                here = here[int(key)]
            else:
                raise SchemaError(f"$ref {ref[:80]!r} points to nothing")
        return here

    def flat(self, schema: Any) -> dict[str, Any] | bool:
        """The schema with `allOf`, and references that stand beside other keywords, merged into it.

        A lone reference stays. Raises SchemaError.
        """
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{str(schema)[:80]!r} is no schema")
        found = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        if set(found) == {"$ref"}:
            return found
        parts: list[Any] = []
        if "$ref" in found:
            parts.append(self.target(found.pop("$ref")))
        if "allOf" in found:
            several = found.pop("allOf")
            if not isinstance(several, list) or not several:
                raise SchemaError("allOf must be a list of schemas")
            parts += several
        merged: dict[str, Any] | bool = found
        for part in parts:
            merged = self.both(merged, self._resolved(part))
        return merged

    def both(self, one: dict[str, Any] | bool, other: dict[str, Any] | bool) -> Any:
        """A schema for what fits both. Raises SchemaError where that cannot be written."""
        if one is False or other is False:
            return False
        if one is True or not one:
            return other
        if other is True or not other:
            return one
        merged = dict(one)
        for key, value in other.items():
            merged[key] = self._merged(key, merged[key], value) if key in merged else value
        return merged

    def _resolved(self, schema: Any) -> dict[str, Any] | bool:
        """Flat, and no reference either."""
        flat = self.flat(schema)
        while isinstance(flat, dict) and "$ref" in flat:
            self._count()
            flat = self.flat(self.target(flat["$ref"]))
        self._count()
        return flat

    def _count(self) -> None:
        self._merges += 1
        if self._merges > _MOST_MERGES:
            raise SchemaError("allOf and $ref lead in circles, or there are too many")

    def _merged(self, key: str, one: Any, other: Any) -> Any:
        if one == other:
            return one
        if key == "properties":
            names = [*one, *(name for name in other if name not in one)]
            return {
                name: {"allOf": [one[name], other[name]]}
                if name in one and name in other
                else one.get(name, other.get(name))
                for name in names
            }
        if key == "required":
            return [*one, *(name for name in other if name not in one)]
        if key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            return max(one, other)
        if key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            return min(one, other)
        if key in ("items", "additionalProperties"):
            return {"allOf": [one, other]}
        if key == "type":
            return _common_types(one, other)
        if key == "enum":
            return [value for value in one if value in other]
        if key in ("anyOf", "oneOf"):
            return [{"allOf": [a, b]} for a in one for b in other]
        raise SchemaError(f"allOf gives two values for {key}")


def types_of(value: Any) -> list[str]:
    """Raises SchemaError for what is no type."""
    types = [value] if isinstance(value, str) else value
    if not isinstance(types, list) or not types or not all(t in TYPES for t in types):
        raise SchemaError(f"{str(value)[:80]!r} is no type")
    return list(types)


def _common_types(one: Any, other: Any) -> list[str]:
    a, b = types_of(one), types_of(other)
    common = [t for t in a if t in b]
    if "integer" not in common and (
        ("integer" in a and "number" in b) or ("number" in a and "integer" in b)
    ):
        common.append("integer")
    if not common:
        raise SchemaError(f"nothing is both {one} and {other}")
    return common
