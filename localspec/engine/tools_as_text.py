"""Tools for models whose chat template knows none: told in a system message, Hermes' way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localspec.engine.settings import ChatMessage
from localspec.errors import TemplateError

if TYPE_CHECKING:
    from localspec.engine.chat_template import ChatTemplate

TOOL_MARKERS = frozenset(
    {
        "<tool_call>",
        "</tool_call>",  # Hermes, Qwen
        "<|python_tag|>",  # Llama 3
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",  # Mistral
        "<|tool_call>",
        "<tool_call|>",  # Gemma 4
        '<|"|>',
        "<|constrain|>",
        "<|call|>",  # gpt-oss
    }
)
"""Texts of control tokens by which models mark calls."""

_PREAMBLE = (
    "You may call one or more functions to assist with the user query.\n"
    "You are given the signatures of the functions within <tools></tools> tags:\n<tools>\n"
)
_POSTAMBLE = (
    "\n</tools>\nFor each function call, return a JSON object with the name and the arguments "
    "within <tool_call></tool_call> tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <object>}\n</tool_call>'
)


def shows_tools(
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    tools: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any] | None = None,
) -> bool:
    """Whether the prompt that `template` makes names every one of `tools`."""
    if "tool" not in template.source:
        return False
    try:
        text = template.render(messages, tools=tools, variables=variables)
    except TemplateError as error:
        if error.fields.get("stopped"):
            raise
        return False
    return all(str(tool["function"]["name"]) in text for tool in tools)


def with_tools_as_text(
    messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]
) -> list[ChatMessage]:
    """The conversation with `tools` told in its system message, earlier calls written as text, and
    their results as messages of the user."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    told = _PREAMBLE + listed + _POSTAMBLE
    plain = [_as_text(message) for message in messages]
    if plain and plain[0].role == "system":
        return [replace(plain[0], content=f"{plain[0].content}\n\n{told}"), *plain[1:]]
    return [ChatMessage("system", told), *plain]


def _as_text(message: ChatMessage) -> ChatMessage:
    if message.role == "tool":
        response = f"<tool_response>\n{message.content}\n</tool_response>"
        return ChatMessage("user", response)
    if not message.tool_calls:
        return message
    calls = [
        "<tool_call>\n"
        + json.dumps(
            {"name": call["function"]["name"], "arguments": call["function"]["arguments"]},
            ensure_ascii=False,
        )
        + "\n</tool_call>"
        for call in message.tool_calls
    ]
    text = "\n".join([message.content, *calls] if message.content else calls)
    return replace(message, content=text, tool_calls=())
