"""One call of a function, and how it is told apart from text."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_ID_LETTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Mistral's templates refuse any other length; everybody else takes what they get."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model made."""

    id: str
    name: str
    arguments: str
    """JSON text of an object."""

    def as_dict(self, index: int | None = None) -> dict[str, Any]:
        """As the Chat Completions API has it; `index` only in streams."""
        place = {} if index is None else {"index": index}
        function = {"name": self.name, "arguments": self.arguments}
        return {**place, "id": self.id, "type": "function", "function": function}


class NoCall(ValueError):
    """The text is no call after all."""


def new_call(name: Any, arguments: Any) -> ToolCall:
    """arguments: an object, or JSON text of one. Raises NoCall."""
    if not isinstance(name, str) or not name:
        raise NoCall("a call without a name")
    if isinstance(arguments, str):
        arguments = parsed(arguments or "{}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise NoCall("arguments that are no object")
    call_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False))


def parsed(text: str) -> Any:
    """Raises NoCall for what is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NoCall("not JSON") from None


def call_of(value: Any) -> ToolCall:
    """From `{"name", "arguments"}`, or `parameters` as Llama says. Raises NoCall."""
    if not isinstance(value, Mapping) or "name" not in value:
        raise NoCall("an object without a name")
    return new_call(value["name"], value.get("arguments", value.get("parameters")))


def objects_in(text: str) -> Iterable[Any]:
    """JSON values after each other, with blanks, commas or semicolons between them.

    Raises NoCall when something else stands there.
    """
    decoder = json.JSONDecoder()
    place = 0
    while True:
        while place < len(text) and text[place] in " \t\r\n,;":
            place += 1
        if place == len(text):
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            raise NoCall("not JSON") from None
        yield value
