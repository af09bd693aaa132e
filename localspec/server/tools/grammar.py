"""Grammars that make a model call: `tool_choice` `required`, or one function by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from localspec.server.gbnf import Rules, choice, literal
from localspec.server.json_schema import add_schema

_AROUND = {
    "hermes": ('<tool_call>\n{"name": NAME, "arguments": ', "}\n</tool_call>", "\n"),
    "llama": ('{"name": NAME, "parameters": ', "}", "; "),
    "mistral": ('[TOOL_CALLS][{"name": NAME, "arguments": ', "}]", ""),
    "mistral-args": ("[TOOL_CALLS]BARE[ARGS]", "", ""),
    "harmony": ("<|channel|>commentary to=functions.BARE <|constrain|>json<|message|>", "", ""),
}
"""Text before and after the arguments, and between calls; NAME is quoted, BARE is not."""
_ONE_ONLY = frozenset({"mistral", "harmony"})


def call_grammar(
    tools: Sequence[Mapping[str, Any]], form: str, *, several: bool, answer: Any = None
) -> str:
    """GBNF of at least one call of `tools`, written in the format `form`.

    several: whether more calls may follow. answer: a JSON schema for an answer that may come
    instead of calls. Raises SchemaError.
    """
    before, after, between = _AROUND[form]
    rules = Rules()
    rules.reserve("root")
    calls = []
    for tool in tools:
        function = tool["function"]
        name = function["name"]
        opening = before.replace("NAME", json.dumps(name)).replace("BARE", name)
        arguments = add_schema(rules, _object(function.get("parameters")), f"args-{name}")
        closing = f" {literal(after)}" if after else ""
        calls.append(f"{literal(opening)} {arguments}{closing}")
    call = rules.add("call", choice(calls))
    body = call
    if several and form not in _ONE_ONLY:
        separator = f"{literal(between)} " if between else ""
        body = f"{call} ({separator}{call}){{0,15}}"
    if answer is not None:
        body = f"({body} | {add_schema(rules, answer, 'answer')})"
    rules.define("root", body)
    return rules.text()


def _object(parameters: Any) -> Any:
    """Arguments are an object whatever the schema forgets to say."""
    if not isinstance(parameters, Mapping):
        return {"type": "object", "additionalProperties": False}
    # A function without parameters takes none, though JSON schema would let any object pass.
    closed = {} if parameters.get("properties") else {"additionalProperties": False}
    return {"type": "object", **closed, **parameters}
