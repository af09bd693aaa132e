"""From the messages of a body to those of the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localspec.engine.settings import ChatMessage
from localspec.server.bodies import Content, MessageBody, ToolBody, ToolCallBody
from localspec.server.failures import invalid


def messages_of(bodies: Sequence[MessageBody]) -> tuple[ChatMessage, ...]:
    """Raises ApiError 400 that names the message that cannot be."""
    names: dict[str, str] = {}
    return tuple(_message(body, f"messages[{i}]", names) for i, body in enumerate(bodies))


def tools_of(bodies: Sequence[ToolBody] | None) -> tuple[dict[str, Any], ...]:
    """The functions as chat templates expect them."""
    tools: list[dict[str, Any]] = []
    for index, body in enumerate(bodies or ()):
        function = body.function
        if function.name in {tool["function"]["name"] for tool in tools}:
            raise invalid(
                f"tools[{index}].function.name: {function.name!r} is there twice",
                f"tools[{index}].function.name",
            )
        described: dict[str, Any] = {
            "name": function.name,
            "description": function.description or "",
            "parameters": function.parameters or {"type": "object", "properties": {}},
        }
        tools.append({"type": "function", "function": described})
    return tuple(tools)


def text_of(content: Content | None) -> str:
    """The words of a message, its parts joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.words for part in content)


def _message(body: MessageBody, place: str, names: dict[str, str]) -> ChatMessage:
    role = "system" if body.role == "developer" else body.role
    text = text_of(body.content) or body.refusal or ""
    if role != "assistant":
        if body.content is None:
            raise invalid(f"{place}.content is missing", f"{place}.content", "missing_parameter")
        if body.tool_calls:
            raise invalid(f"{place}.tool_calls: only an assistant calls", f"{place}.tool_calls")
    if role == "tool":
        call_id = body.tool_call_id or ""
        name = body.name or names.get(call_id, "")
        return ChatMessage("tool", text, tool_call_id=call_id, name=name)
    calls = []
    for index, call in enumerate(body.tool_calls or ()):
        calls.append(_call(call, f"{place}.tool_calls[{index}]"))
        names[call.id] = call.function.name
    return ChatMessage(
        role,
        text,
        thinking=body.reasoning_content or "",
        tool_calls=tuple(calls),
        name=body.name or "",
    )


def _call(body: ToolCallBody, place: str) -> dict[str, Any]:
    arguments = body.function.arguments
    if isinstance(arguments, str):
        # Templates write arguments out as JSON themselves; a string would be quoted once more.
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise invalid(
                f"{place}.function.arguments is not JSON", f"{place}.function.arguments"
            ) from None
    return {
        "id": body.id,
        "type": "function",
        "function": {"name": body.function.name, "arguments": arguments},
    }
