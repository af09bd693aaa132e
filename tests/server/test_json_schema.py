"""Everything a schema's grammar matches is valid by that schema."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localspec.server.enumeration import MOST_VALUES, one_of_texts
from localspec.server.json_schema import SchemaError, grammar_for
from localspec.server.number_ranges import integers, numbers
from localspec.server.schema_patterns import pattern_rule
from tests.support.gbnf_regex import as_regex, expression_as_regex

BOUNDED = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}},
    {
        "type": "object",
        "properties": {n: {"type": "null"} for n in "abcd"},
        "required": ["b", "d"],
        "additionalProperties": False,
    },
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "minProperties": 2},
    {"type": "object", "properties": {n: {"const": 1} for n in "abc"}, "maxProperties": 1},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    {"type": "array", "items": {"enum": ["x", 1, None, {"k": [1]}]}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "items": False},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": r"^[A-Z]{2,3}-\d+(\.\w*)?$"},
    {"type": "string", "format": "date-time"},
    {"type": ["integer", "null"], "minimum": -3, "exclusiveMaximum": 12},
    {"type": "number", "exclusiveMinimum": -1.5, "maximum": 2.25},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 5}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object",
     "properties": {"a": {"const": 0}}, "additionalProperties": False},
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 17}]},
    {"$defs": {"n": {"type": "integer", "minimum": 1}}, "type": "object",
     "properties": {"x": {"$ref": "#/$defs/n"}, "y": {"$ref": "#/$defs/n", "maximum": 4}},
     "required": ["x", "y"]},
]  # fmt: skip


@pytest.mark.parametrize("schema", BOUNDED, ids=range(len(BOUNDED)))
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_the_grammar_matches_is_valid(schema: dict[str, Any], data: st.DataObject) -> None:
    try:
        regex = as_regex(grammar_for(schema))
    except SchemaError:
        # Only the branch `b`, which is no property and may not be added, is impossible.
        assert "oneOf" in schema
        return
    text = data.draw(st.from_regex(regex, fullmatch=True))
    jsonschema.validate(json.loads(text), schema)


@given(
    least=st.none() | st.integers(-(10**9), 10**9),
    width=st.none() | st.integers(0, 10**6),
    near=st.integers(-20, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_an_integer_matches_if_and_only_if_it_is_in_the_range(
    least: int | None, width: int | None, near: int
) -> None:
    most = None if width is None else (least or 0) + width
    rule = integers(least, most)
    assert rule is not None
    regex = re.compile(expression_as_regex(rule))
    for value in (near, (least or 0) + near, (most or 0) - near, 0, -1):
        inside = (least is None or value >= least) and (most is None or value <= most)
        assert bool(regex.fullmatch(str(value))) == inside, (value, rule)
    assert not regex.fullmatch("007")
    assert not regex.fullmatch("-0")


@given(
    low=st.decimals(-1000, 1000, places=3),
    width=st.decimals(0, 50, places=3),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_a_number_that_matches_is_in_the_range(low: Any, width: Any, data: st.DataObject) -> None:
    from fractions import Fraction

    least, most = Fraction(low), Fraction(low) + Fraction(width)
    rule = numbers(least, most, above=False, below=False)
    assert rule is not None, "a closed range has at least its own bounds"
    text = data.draw(st.from_regex(expression_as_regex(rule), fullmatch=True))
    assert least <= Fraction(text) <= most
    json.loads(text)


PATTERNS = [
    r"^abc$", r"a|b", r"^(?:\w+@)?\w+\.com$", r"[^a-z\"]{1,3}", r'"\\/\n', r"\x41\u00e9+",
    r"^-?(0|[1-9]\d*)$", r"[\s\S]?", r"^[-_.~a-z^\]]+$", r"\D\W\S", r"a{2}b{0,2}c{1,}?",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_string_that_matches_a_patterns_rule_matches_the_pattern(
    pattern: str, data: st.DataObject
) -> None:
    regex = expression_as_regex(pattern_rule(pattern))
    text = json.loads(f'"{data.draw(st.from_regex(regex, fullmatch=True))}"')
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "integer", "multipleOf": 7}, "multipleOf"),
        ({"if": {}, "then": False}, "if"),
        ({"type": "strnig"}, "strnig"),
        ({"$ref": "#/$defs/gone"}, "gone"),
        ({"$ref": "https://example.org/schema"}, "leads out"),
        ({"$ref": "#"}, "back to itself"),
        ({"anyOf": [{"$ref": "#"}]}, "back to itself"),
        ({"allOf": [{"$ref": "#"}]}, "circles"),
        ({"type": "string", "pattern": "(?=a)"}, "(?"),
        ({"type": "string", "pattern": r"(a)\1"}, "cannot be expressed"),
        ({"type": "string", "minLength": 4, "maxLength": 2}, "minLength"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number"),
        ({"enum": []}, "nothing is valid"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "nothing is both"),
        (False, "nothing is valid"),
        ([1], "no schema"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(schema: Any, named: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(named)):
        grammar_for(schema)


def test_recursion_by_way_of_a_property_is_a_rule_that_names_itself() -> None:
    grammar = grammar_for({"type": "object", "properties": {"next": {"$ref": "#"}}})
    with pytest.raises(AssertionError, match="is recursive"):
        as_regex(grammar)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "required",
                 "minimum", "maxLength", "pattern", "const", "additionalProperties", "x"]
            ),
            inner | st.sampled_from(["object", "array", "string", "#", "#/x"]),
            max_size=4,
        ),
        max_leaves=20,
    )
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_json_at_all_makes_a_grammar_or_a_schema_error(schema: Any) -> None:
    try:
        grammar = grammar_for(schema)
    except SchemaError:
        return
    assert grammar.count("root ::=") == 1


@given(st.sets(st.text('ab"\\]é 1', max_size=40), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_one_of_many_texts_is_exactly_one_of_them(texts: set[str]) -> None:
    regex = re.compile(expression_as_regex(one_of_texts(list(texts))))
    assert all(regex.fullmatch(text) for text in texts)
    others = {text + "a" for text in texts} | {text[:-1] for text in texts if text}
    assert not any(regex.fullmatch(text) for text in others - texts)


def test_texts_that_begin_alike_are_few_alternatives() -> None:
    """Alternatives that are possible at one place are what an answer's tokens cost."""
    grammar = one_of_texts([f"value {number:03}" for number in range(1000)])
    assert grammar.startswith('"value " (')
    depth = most = 0
    at: dict[int, int] = {}
    for character in grammar:
        if character == "(":
            depth += 1
            at[depth] = 1
        elif character == ")":
            depth -= 1
        elif character == "|":
            at[depth] += 1
            most = max(most, at[depth])
    assert most == 10


def test_more_values_than_a_grammar_can_follow_are_refused() -> None:
    grammar_for({"enum": list(range(MOST_VALUES))})
    with pytest.raises(SchemaError, match="1000 is the most"):
        grammar_for({"enum": list(range(MOST_VALUES + 1))})
    with pytest.raises(SchemaError, match="1000 is the most"):
        grammar_for({"anyOf": [{"const": number} for number in range(MOST_VALUES + 1)]})
