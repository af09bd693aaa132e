"""From a JSON schema to GBNF, so that every complete answer is valid.

A grammar may allow less than the schema does, never more: properties come in the order of the
schema, none beside them, and patterns match the whole string. What cannot be held is an error that
names the keyword, not a silent omission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from localspec.server.enumeration import MOST_VALUES, one_of_texts
from localspec.server.gbnf import SPACE, GrammarTooLarge, Rules, choice, literal, repeat
from localspec.server.number_ranges import integers, numbers
from localspec.server.schema_merge import ANNOTATIONS, TYPES, Flattener, SchemaError, types_of
from localspec.server.schema_patterns import PatternError, pattern_rule

__all__ = ["SchemaError", "add_schema", "grammar_for"]

_CHARACTER = (
    r'[^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" '
    r"([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}))"
)
"""One code point of a JSON string; halves of surrogate pairs are left out."""
_DATE = '[0-9]{3} [1-9] "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])'
_TIME = (
    '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? '
    '("Z" | [+\\x2D] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])'
)
_HEX = "[0-9a-fA-F]"
_OCTET = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])'
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f'{_DATE} "T" {_TIME}',
    "uuid": ' "-" '.join(f"{_HEX}{{{count}}}" for count in (8, 4, 4, 4, 12)),
    "ipv4": f'{_OCTET} "." {_OCTET} "." {_OCTET} "." {_OCTET}',
    "email": '[a-z0-9]{1,20} ("." [a-z0-9]{1,20})? "@" [a-z0-9]{1,20} "." [a-z]{2,8}',
}
"""Formats that are held. February has 28 days here and years do not end in 0: always valid."""

_OBJECT = {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
_ARRAY = {"items", "prefixItems", "minItems", "maxItems", "additionalItems"}
_STRING = {"minLength", "maxLength", "pattern", "format"}
_NUMBER = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_LENIENT = {"patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"}
"""Keywords about properties and items that an answer by this grammar does not have."""
_KNOWN = (
    {"type", "enum", "const", "anyOf", "oneOf", "$ref", "nullable"}
    | _OBJECT | _ARRAY | _STRING | _NUMBER | _LENIENT
)  # fmt: skip


def grammar_for(schema: Any) -> str:
    """GBNF whose `root` matches JSON that is valid by `schema`. Raises SchemaError."""
    rules = Rules()
    rules.reserve("root")
    value = add_schema(rules, schema)
    rules.define("root", f"space {value} space")
    return rules.text()


def add_schema(rules: Rules, schema: Any, name: str = "value") -> str:
    """GBNF that matches values of `schema`; the rules it needs are added. Raises SchemaError."""
    if "space" not in rules.text():
        rules.define("space", SPACE.partition("::= ")[2])
    try:
        return _Converter(rules, schema).value(schema, name, frozenset())
    except (GrammarTooLarge, PatternError) as error:
        raise SchemaError(str(error)) from None
    except (TypeError, AttributeError):
        # A keyword with a value of another kind than it has: text for a number, and the like.
        raise SchemaError("a keyword has a value of the wrong kind") from None
    except RecursionError:
        raise SchemaError("the schema is too deep") from None


class _Converter:
    """`open_refs` are the references that have been followed without a character in between."""

    def __init__(self, rules: Rules, document: Any) -> None:
        self._rules = rules
        self._flattener = Flattener(document)
        self._by_ref: dict[str, str] = {}

    def value(self, schema: Any, name: str, open_refs: frozenset[str]) -> str:
        flat = self._flattener.flat(schema)
        if flat is True or flat == {}:
            return self._anything()
        if isinstance(flat, bool):
            raise SchemaError(f"nothing is valid for {name}")
        if "$ref" in flat:
            return self._reference(str(flat["$ref"]), open_refs)
        for keyword in flat:
            if keyword not in _KNOWN and not _says_nothing(keyword, flat[keyword]):
                raise SchemaError(f"the keyword {keyword!r} cannot be held by a grammar")
        for keyword in ("anyOf", "oneOf"):
            if keyword in flat:
                return self._one_of(flat, keyword, name, open_refs)
        if "const" in flat:
            return self._listed([flat["const"]], flat, name)
        if "enum" in flat:
            if not isinstance(flat["enum"], list):
                raise SchemaError("enum must be a list")
            return self._listed(flat["enum"], flat, name)
        types = types_of(flat["type"]) if "type" in flat else _implied_types(flat)
        if flat.get("nullable") is True and "null" not in types:
            types.append("null")
        if "number" in types and "integer" in types:
            types.remove("integer")
        return self._rules.add(name, choice(self._typed(t, flat, name) for t in types))

    def _reference(self, ref: str, open_refs: frozenset[str]) -> str:
        if ref in open_refs:
            raise SchemaError(f"$ref {ref[:80]!r} leads back to itself")
        if ref not in self._by_ref:
            name = self._by_ref[ref] = self._rules.reserve(ref.rpartition("/")[2] or "self")
            target = self._flattener.target(ref)
            self._rules.define(name, self.value(target, name, open_refs | {ref}))
        return self._by_ref[ref]

    def _one_of(
        self, flat: dict[str, Any], keyword: str, name: str, open_refs: frozenset[str]
    ) -> str:
        branches = flat[keyword]
        if not isinstance(branches, list) or not branches:
            raise SchemaError(f"{keyword} must be a list of schemas")
        if len(branches) > MOST_VALUES:
            raise SchemaError(f"{keyword} of {len(branches)} schemas, {MOST_VALUES} is the most")
        beside = {key: value for key, value in flat.items() if key != keyword}
        found = []
        for index, branch in enumerate(branches, 1):
            whole = {"allOf": [beside, branch]} if beside else branch
            if self._flattener.flat(whole) is not False:
                found.append(self.value(whole, f"{name}-{index}", open_refs))
        if not found:
            raise SchemaError(f"nothing is valid for {name}")
        return self._rules.add(name, choice(found))

    def _listed(self, values: list[Any], flat: dict[str, Any], name: str) -> str:
        types = types_of(flat["type"]) if "type" in flat else list(TYPES)
        fitting = [value for value in values if _has_type(value, types)]
        if not fitting:
            raise SchemaError(f"nothing is valid for {name}")
        if len(fitting) > MOST_VALUES:
            raise SchemaError(f"an enum of {len(fitting)} values, {MOST_VALUES} is the most")
        written = [json.dumps(value, ensure_ascii=False) for value in fitting]
        return self._rules.add(name, one_of_texts(written))

    def _typed(self, kind: str, flat: dict[str, Any], name: str) -> str:
        if kind == "object":
            return self._object(flat, name)
        if kind == "array":
            return self._array(flat, name)
        if kind == "string":
            return self._string(flat)
        if kind == "boolean":
            return '("true" | "false")'
        if kind == "null":
            return '"null"'
        return self._number(flat, name, whole=kind == "integer")

    def _object(self, flat: dict[str, Any], name: str) -> str:
        properties = flat.get("properties", {})
        required = flat.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise SchemaError(f"properties or required of {name} are broken")
        others = flat.get("additionalProperties", True)
        least, most = _counts(flat, "minProperties", "maxProperties")
        if not properties and not required:
            return self._map(others, least, most, name)
        known = dict(properties)
        for key in required:
            if not isinstance(key, str) or (key not in known and others is False):
                raise SchemaError(f"required {str(key)[:80]!r} is no property")
            known.setdefault(key, others)
        wanted = set(required)
        # Fewer optional ones are always valid, and more of them where a number is asked for.
        for key in known:
            if len(wanted) >= least:
                break
            wanted.add(key)
        if len(wanted) < least or (most is not None and len(wanted) > most):
            raise SchemaError(f"{name} cannot have so many properties")
        if most is not None and len(known) > most:
            known = {key: value for key, value in known.items() if key in wanted}
        members = []
        for key, schema in known.items():
            if key not in wanted and self._flattener.flat(schema) is False:
                continue
            inside = self.value(schema, f"{name}-{key}", frozenset())
            written = literal(json.dumps(key, ensure_ascii=False))
            members.append((f'{written} space ":" space {inside}', key in wanted))
        return (
            f'"{{" space {self._members(members, name)} space "}}"' if members else '"{" space "}"'
        )

    def _members(self, members: list[tuple[str, bool]], name: str) -> str:
        """Members in order, those that are not wanted left out at will."""
        # tail: what follows once one member stands; first: while none does.
        tail, first = "", ""
        for member, wanted in reversed(members):
            begins = f"{member} {tail}".strip()
            first = begins if wanted else f"({begins} | {first})" if first else f"({begins})?"
            joined = f'space "," space {member} {tail}'.strip()
            if not wanted:
                joined = f'(space "," space {member})? {tail}'.strip()
            tail = self._rules.add(f"{name}-tail", joined)
        return first

    def _map(self, others: Any, least: int, most: int | None, name: str) -> str:
        if others is False or most == 0:
            if least:
                raise SchemaError(f"{name} cannot have so many properties")
            return '"{" space "}"'
        inside = self.value(others, f"{name}-value", frozenset())
        member = self._rules.add(f"{name}-member", f'{self._text()} space ":" space {inside}')
        return f'"{{" space {self._list(member, least, most)} space "}}"'

    def _array(self, flat: dict[str, Any], name: str) -> str:
        first = flat.get("prefixItems", [])
        rest = flat.get("items", flat.get("additionalItems", True))
        if isinstance(rest, list):
            first, rest = rest, flat.get("additionalItems", True)
        if not isinstance(first, list):
            raise SchemaError(f"prefixItems of {name} must be a list")
        least, most = _counts(flat, "minItems", "maxItems")
        if not first:
            if rest is False or most == 0:
                if least:
                    raise SchemaError(f"{name} cannot have so many items")
                return '"[" space "]"'
            item = self.value(rest, f"{name}-item", frozenset())
            return f'"[" space {self._list(item, least, most)} space "]"'
        if most is not None:
            first = first[:most]
        items = [self.value(s, f"{name}-{i}", frozenset()) for i, s in enumerate(first, 1)]
        body = ' space "," space '.join(items)
        more = max(0, least - len(items))
        if more:
            if rest is False:
                raise SchemaError(f"{name} cannot have so many items")
            item = self.value(rest, f"{name}-item", frozenset())
            body += " " + repeat(f'(space "," space {item})', more, more)
        return f'"[" space {body} space "]"'

    def _list(self, item: str, least: int, most: int | None) -> str:
        more = repeat(
            f'(space "," space {item})', max(0, least - 1), None if most is None else most - 1
        )
        some = f"{item} {more}"
        return f"({some})?" if least == 0 else some

    def _string(self, flat: dict[str, Any]) -> str:
        least, most = _counts(flat, "minLength", "maxLength")
        if "pattern" in flat:
            if least or most is not None:
                raise SchemaError("pattern together with minLength or maxLength cannot be held")
            return f'"\\"" {pattern_rule(str(flat["pattern"]))} "\\""'
        held = _FORMATS.get(str(flat.get("format", "")))
        if held is not None and not least and most is None:
            return f'"\\"" {held} "\\""'
        if not least and most is None:
            return self._text()
        return f'"\\"" {repeat(self._rules.add("character", _CHARACTER), least, most)} "\\""'

    def _number(self, flat: dict[str, Any], name: str, *, whole: bool) -> str:
        least, above = _bound(flat, "minimum", "exclusiveMinimum", max)
        most, below = _bound(flat, "maximum", "exclusiveMaximum", min)
        if whole:
            low = None if least is None else -(-least.numerator // least.denominator)
            high = None if most is None else most.numerator // most.denominator
            low = low + 1 if low is not None and above and low == least else low
            high = high - 1 if high is not None and below and high == most else high
            found = integers(low, high)
        else:
            found = numbers(least, most, above=above, below=below)
        if found is None:
            raise SchemaError(f"no number is valid for {name}")
        if least is None and most is None and not whole:
            found += ' ([eE] [+\\x2D]? "1"? [0-9])?'
        return found

    def _text(self) -> str:
        character = self._rules.add("character", _CHARACTER)
        return self._rules.add("string", f'"\\"" {character}* "\\""')

    def _anything(self) -> str:
        known = self._by_ref.get("")
        if known is not None:
            return known
        name = self._by_ref[""] = self._rules.reserve("any")
        member = f'{self._text()} space ":" space {name}'
        entries = self._list(f"({member})", 0, None)
        kinds = (
            f'"{{" space {entries} space "}}"',
            f'"[" space {self._list(name, 0, None)} space "]"',
            self._text(),
            self._number({}, "any", whole=False),
            '"true" | "false" | "null"',
        )
        self._rules.define(name, " | ".join(kinds))
        return name


def _says_nothing(keyword: str, value: Any) -> bool:
    return (
        keyword in ANNOTATIONS
        or keyword.startswith("x-")
        or (keyword == "uniqueItems" and value is False)
        or (keyword == "multipleOf" and value == 1)
    )


def _implied_types(flat: dict[str, Any]) -> list[str]:
    """What a schema without `type` speaks of; of several kinds it would allow, that one."""
    for kind, keywords in (
        ("object", _OBJECT),
        ("array", _ARRAY),
        ("string", _STRING),
        ("number", _NUMBER),
    ):
        if keywords & set(flat):
            return [kind]
    return list(TYPES)


def _has_type(value: Any, types: list[str]) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "null": (type(None),),
    }
    if isinstance(value, bool):
        return "boolean" in types
    return any(isinstance(value, kinds[kind]) for kind in types)


def _counts(flat: dict[str, Any], low: str, high: str) -> tuple[int, int | None]:
    least, most = flat.get(low, 0), flat.get(high)
    for name, value in ((low, least), (high, most)):
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or value < 0
        ):
            raise SchemaError(f"{name} must be a whole number from 0")
    if most is not None and least > most:
        raise SchemaError(f"{low} {least} is above {high} {most}")
    if least > 100_000:
        raise SchemaError(f"{low} {least} is too large")
    return int(least), most


def _bound(
    flat: dict[str, Any], inclusive: str, exclusive: str, stricter: Any
) -> tuple[Fraction | None, bool]:
    """The bound, and whether it is excluded itself."""
    found: list[tuple[Fraction, bool]] = []
    closed, opened = flat.get(inclusive), flat.get(exclusive)
    # Draft 4 has a truth value here that makes the other keyword exclusive.
    excludes = opened is True
    for value, is_open in (
        (closed, excludes),
        (None if isinstance(opened, bool) else opened, True),
    ):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"{inclusive} must be a number")
        if abs(value) > 1e300:
            continue
        found.append((Fraction(str(value)), is_open))
    if not found:
        return None, False
    limit = stricter(value for value, _ in found)
    return limit, any(is_open for value, is_open in found if value == limit)
