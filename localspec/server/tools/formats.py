"""How families of models write calls: where one begins, where it ends, how it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localspec.server.tools.calls import NoCall, ToolCall, call_of, new_call, objects_in, parsed
from localspec.server.tools.gemma import gemma_calls

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of each function that was offered."""


@dataclass(frozen=True, slots=True)
class CallFormat:
    name: str
    start: str
    end: str
    """Empty: a call goes on to the end of the answer."""
    read: Callable[[str, Schemas], list[ToolCall]]
    """Calls in the text between start and end. Raises NoCall."""


def _hermes(text: str, schemas: Schemas) -> list[ToolCall]:
    """`{"name", "arguments"}`; or `<function=…><parameter=…>`, as Qwen3-Coder writes."""
    if "<function=" in text:
        return _coder(text, schemas)
    return [call_of(value) for value in objects_in(text)]


def _coder(text: str, schemas: Schemas) -> list[ToolCall]:
    calls = []
    for name, inside in re.findall(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", text, re.S):
        known = schemas.get(name, {}).get("properties", {})
        arguments = {}
        values = re.findall(
            r"<parameter=([^>\n]+)>\n?(.*?)\n?(?=</parameter>|<parameter=|\Z)", inside, re.S
        )
        for key, value in values:
            kind = known.get(key, {}).get("type") if isinstance(known.get(key), Mapping) else None
            arguments[key] = value if kind == "string" else _value(value)
        calls.append(new_call(name.strip(), arguments))
    if not calls:
        raise NoCall("no function")
    return calls


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _llama(text: str, schemas: Schemas) -> list[ToolCall]:
    return [call_of(value) for value in objects_in(text)]


def bare_calls(text: str, schemas: Schemas) -> list[ToolCall]:
    """An answer that is nothing but calls of offered functions, as Llama 3 writes them.

    Raises NoCall for any other JSON: an answer may well be JSON.
    """
    values = list(objects_in(text))
    for value in values:
        if not isinstance(value, Mapping) or value.get("name") not in schemas:
            raise NoCall("an object that calls nothing")
        if not set(value) <= {"name", "parameters", "arguments", "type", "id"}:
            raise NoCall("an object that says more than a call")
        if not isinstance(value.get("parameters", value.get("arguments")), Mapping):
            raise NoCall("a call without arguments")
    if not values:
        raise NoCall("nothing")
    return [call_of(value) for value in values]


_MISTRAL_CALL = re.compile(r"\s*([\w.:/-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\])?\s*(?=\{)")


def _mistral(text: str, schemas: Schemas) -> list[ToolCall]:
    """A list of objects; or `name[ARGS]{…}`, as newer models write."""
    calls: list[ToolCall] = []
    for part in text.split("[TOOL_CALLS]"):
        part = part.strip()
        if part.startswith("["):
            values = parsed(part)
            calls += [call_of(value) for value in values]
            continue
        place = 0
        while place < len(part):
            match = _MISTRAL_CALL.match(part, place)
            if match is None:
                raise NoCall("no name")
            try:
                arguments, place = json.JSONDecoder().raw_decode(part, match.end())
            except (ValueError, RecursionError):
                raise NoCall("not JSON") from None
            calls.append(new_call(match.group(1), arguments))
    return calls


_HARMONY_START = re.compile(r"(?:<\|start\|>assistant)?(?:<\|channel\|>commentary )?to=functions\.")


def _harmony(text: str, schemas: Schemas) -> list[ToolCall]:
    """gpt-oss: `name <|constrain|>json<|message|>{…}`, the name up to a blank or a marker."""
    calls = []
    for part in re.split(
        r"(?:<\|start\|>assistant)?(?:<\|channel\|>commentary )?to=functions\.", text
    ):
        name = re.match(r"[\w.:/-]+", part)
        _, marker, arguments = part.partition("<|message|>")
        if name is None or not marker:
            raise NoCall("no message")
        arguments = re.split(r"<\|(?:call|end|return)\|>", arguments)[0]
        calls.append(new_call(name.group(), arguments))
    return calls


def _gemma(text: str, schemas: Schemas) -> list[ToolCall]:
    return [new_call(name, arguments) for name, arguments in gemma_calls(text)]


FORMATS = (
    CallFormat("hermes", "<tool_call>", "</tool_call>", _hermes),
    CallFormat("mistral", "[TOOL_CALLS]", "", _mistral),
    CallFormat("llama", "<|python_tag|>", "", _llama),
    CallFormat("gemma", "<|tool_call>", "<tool_call|>", _gemma),
    CallFormat("gemma", "<start_function_call>", "<end_function_call>", _gemma),
    CallFormat("harmony", "<|channel|>commentary to=functions.", "", _harmony),
    CallFormat("harmony", "to=functions.", "", _harmony),
)
"""Every answer is read in all of them: their marks do not occur in other text."""


def format_of(template: str) -> str:
    """The format that a chat template teaches; Hermes', which we tell models that have none."""
    marks = (
        ("<|channel|>", "harmony"),
        ("<tool_call>", "hermes"),
        ("[TOOL_CALLS]", "mistral-args" if "[ARGS]" in template else "mistral"),
        ("<|python_tag|>", "llama"),
        ('"parameters": dictionary', "llama"),
        ("ipython", "llama"),
    )
    return next((name for mark, name in marks if mark in template), "hermes")
