"""Calls are found in what families of models write, however the text is cut into pieces."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.server.tools.calls import ToolCall
from localspec.server.tools.formats import format_of
from localspec.server.tools.grammar import call_grammar
from localspec.server.tools.stream import ToolStream
from tests.support.gbnf_regex import as_regex


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": "", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [tool("weather", city={"type": "string"}, days={"type": "integer"}), tool("now")]
PARIS = ("weather", {"city": "Paris", "days": 3})
NOW: tuple[str, dict[str, Any]] = ("now", {})

WRITTEN: dict[str, tuple[str, str, list[tuple[str, dict[str, Any]]]]] = {
    "hermes": (
        'Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 3}}'
        '\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        "Let me look.",
        [PARIS, NOW],
    ),
    "hermes without an end": (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 3}}',
        "",
        [PARIS],
    ),
    "qwen coder": (
        "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        "",
        [PARIS],
    ),
    "llama": ('{"name": "weather", "parameters": {"city": "Paris", "days": 3}}', "", [PARIS]),
    "llama, several": (
        '{"name": "now", "parameters": {}}; '
        '{"name": "weather", "parameters": {"city": "Paris", "days": 3}}',
        "",
        [NOW, PARIS],
    ),
    "llama with a tag": (
        '<|python_tag|>{"name": "weather", "parameters": {"city": "Paris", "days": 3}}',
        "",
        [PARIS],
    ),
    "mistral": (
        '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris", "days": 3}}, '
        '{"name": "now", "arguments": {}}]',
        "",
        [PARIS, NOW],
    ),
    "mistral with args": (
        'Of course.[TOOL_CALLS]weather[ARGS]{"city": "Paris", "days": 3}[TOOL_CALLS]now[ARGS]{}',
        "Of course.",
        [PARIS, NOW],
    ),
    "mistral with ids": (
        '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "Paris", "days": 3}',
        "",
        [PARIS],
    ),
    "gemma": (
        '<|tool_call>call:weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>'
        "<|tool_call>call:now{}<tool_call|>",
        "",
        [PARIS, NOW],
    ),
    "function gemma": (
        "<start_function_call>call:weather{city:<escape>Paris<escape>,days:3}<end_function_call>",
        "",
        [PARIS],
    ),
    "gpt-oss": (
        '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris", '
        '"days": 3}<|call|>',
        "",
        [PARIS],
    ),
    "gpt-oss, recipient first": (
        'to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{"city": "Paris", '
        '"days": 3}',
        "",
        [PARIS],
    ),
}


def read(text: str, cuts: list[int], tools: Any = TOOLS) -> tuple[str, list[tuple[str, Any]]]:
    stream = ToolStream(tools)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    found: list[str | ToolCall] = []
    for start, end in itertools.pairwise(places):
        found += stream.feed(text[start:end])
    found += stream.flush()
    said = "".join(item for item in found if isinstance(item, str))
    calls = [(c.name, json.loads(c.arguments)) for c in found if isinstance(c, ToolCall)]
    return said, calls


@pytest.mark.parametrize("name", WRITTEN)
@given(cuts=st.lists(st.integers(0, 250), max_size=12))
@settings(max_examples=40, deadline=None)
def test_calls_are_found_however_the_text_is_cut(name: str, cuts: list[int]) -> None:
    text, said, calls = WRITTEN[name]
    assert read(text, cuts) == (said, calls)
    assert read(text, list(range(len(text)))) == (said, calls)


@pytest.mark.parametrize(
    "text",
    [
        "Just words.",
        '{"city": "Paris"}',
        '{"name": "unknown", "parameters": {}}',
        '{"name": "now", "parameters": {}} is what I would call',
        "<tool_call>\nnot json\n</tool_call> and more",
        "a < b and a <tool",
        "[TOOL_CALLS]",
        "<|tool_call>call:weather{city<tool_call|>",
        "  \n",
    ],
)
@given(cuts=st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=20, deadline=None)
def test_what_is_no_call_comes_out_as_it_stands(text: str, cuts: list[int]) -> None:
    assert read(text, cuts) == (text, [])


@given(st.text('<tool_call>{}[TOOL_CALLS]| \n"a:,ARGS', max_size=80), st.data())
@settings(max_examples=200, deadline=None)
def test_any_text_at_all_is_read_without_an_error(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
    said, calls = read(text, cuts)
    assert calls or said == text


@pytest.mark.parametrize("form", ["hermes", "llama", "mistral", "mistral-args", "harmony"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_a_call_grammar_matches_is_read_back_as_valid_calls(
    form: str, data: st.DataObject
) -> None:
    tools = [tool("weather", days={"type": "integer", "minimum": 1, "maximum": 30}), tool("now")]
    # A second call would make the expression too large to draw from.
    regex = as_regex(call_grammar(tools, form, several=False))
    text = data.draw(st.from_regex(regex, fullmatch=True))
    said, calls = read(text, [], tools)
    assert said == ""
    assert len(calls) == 1
    name, arguments = calls[0]
    if name == "weather":
        assert 1 <= arguments["days"] <= 30
    else:
        assert (name, arguments) == ("now", {})


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>' }}", "hermes"),
        ("[TOOL_CALLS]", "mistral"),
        ("[TOOL_CALLS] [ARGS]", "mistral-args"),
        ("<|python_tag|>", "llama"),
        ("<|start|><|channel|>", "harmony"),
        ("{{ messages }}", "hermes"),
    ],
)
def test_the_format_is_known_by_the_template(template: str, form: str) -> None:
    assert format_of(template) == form


def test_ids_of_calls_differ_and_suit_every_template() -> None:
    stream = ToolStream(TOOLS)
    calls = [c for c in stream.feed(WRITTEN["hermes"][0]) if isinstance(c, ToolCall)]
    assert len({call.id for call in calls}) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", call.id) for call in calls)
