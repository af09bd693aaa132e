"""The output items of a response, and the events that tell of them while they grow."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import time
from typing import Any

from localspec.events import Answer, TokenChance
from localspec.server.answer_parts import Ended, Part, Words
from localspec.server.chances import token_logprobs
from localspec.server.failures import ApiError
from localspec.server.figures import speculation_of, timings_of
from localspec.server.tools.calls import ToolCall

Told = dict[str, Any]


class ResponseWriter:
    """Takes the parts of one answer and keeps the response that they make.

    settings: what the response repeats of its request.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._id = f"resp_{secrets.token_hex(12)}"
        self._created = int(time())
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        """The message or the reasoning that text is added to."""
        self._chances: list[TokenChance] = []
        """Of tokens whose text has not come yet."""
        self._told = 0
        self._end: Ended | None = None
        self._error: ApiError | None = None

    @property
    def answers(self) -> list[Answer]:
        return [self._end.answer] if self._end else []

    def begin(self) -> list[Told]:
        return [
            self._tell("response.created", response=self.response()),
            self._tell("response.in_progress", response=self.response()),
        ]

    def note(self, chances: Sequence[TokenChance]) -> None:
        """Chances of the tokens that the next text is made of."""
        self._chances += chances

    def take(self, part: Part) -> list[Told]:
        """Events about `part`."""
        if isinstance(part, Words):
            return self._words(part)
        if isinstance(part, ToolCall):
            return [*self._close(), *self._call(part)]
        told = self._close()
        self._end = part
        if not self._items:
            told += [*self._words(Words("")), *self._close()]
        name = "response.incomplete" if part.reason == "length" else "response.completed"
        return [*told, self._tell(name, response=self.response())]

    def failed(self, error: ApiError) -> Told:
        """The last event of a response that cannot go on."""
        self._error = error
        return self._tell("response.failed", response=self.response())

    def response(self) -> dict[str, Any]:
        end = self._end
        status = "in_progress"
        if self._error is not None:
            status = "failed"
        elif end is not None:
            status = "incomplete" if end.reason == "length" else "completed"
        response: dict[str, Any] = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"}
            if status == "incomplete"
            else None,
            "output": [dict(item) for item in self._items],
            "usage": None,
            **self._settings,
        }
        if self._error is not None:
            response["error"] = {"code": "server_error", "message": self._error.message}
        if end is not None:
            response["usage"] = _usage(end.answer)
            response["timings"] = timings_of(end.answer)
            response["speculation"] = speculation_of(end.answer)
        return response

    def _words(self, words: Words) -> list[Told]:
        kind = "reasoning" if words.reasoning else "message"
        told: list[Told] = []
        if self._open is None or self._open["type"] != kind:
            told += self._close()
            told += self._begin_item(kind)
        item = self._open
        assert item is not None
        content = item["content"][0]
        content["text"] += words.text
        if words.text:
            name = "reasoning_text" if words.reasoning else "output_text"
            chances, self._chances = self._chances, []
            extra: dict[str, Any] = {}
            if not words.reasoning:
                extra["logprobs"] = token_logprobs(chances)
                # A new list: events that were told hold the old one.
                content["logprobs"] = [*content["logprobs"], *extra["logprobs"]]
            told.append(
                self._tell(f"response.{name}.delta", **self._here(), delta=words.text, **extra)
            )
        return told

    def _begin_item(self, kind: str) -> list[Told]:
        item: dict[str, Any] = {"id": "", "type": kind, "status": "in_progress"}
        if kind == "message":
            item["id"] = f"msg_{secrets.token_hex(12)}"
            item["role"] = "assistant"
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item["id"] = f"rs_{secrets.token_hex(12)}"
            item["summary"] = []
            part = {"type": "reasoning_text", "text": ""}
        self._items.append({**item, "content": [part]})
        self._open = self._items[-1]
        return [
            self._tell(
                "response.output_item.added",
                output_index=len(self._items) - 1,
                item={**item, "content": []},
            ),
            self._tell("response.content_part.added", **self._here(), part=dict(part)),
        ]

    def _close(self) -> list[Told]:
        item = self._open
        if item is None:
            return []
        here = self._here()
        part = item["content"][0]
        item["status"] = "completed"
        name = "output_text"
        extra: dict[str, Any] = {}
        if item["type"] == "reasoning":
            name = "reasoning_text"
            part["text"] = part["text"].strip()
        else:
            # Tokens at the end of an answer may have no text of their own.
            part["logprobs"] = [*part["logprobs"], *token_logprobs(self._chances)]
            extra["logprobs"] = part["logprobs"]
        self._chances = []
        self._open = None
        return [
            self._tell(f"response.{name}.done", **here, text=part["text"], **extra),
            self._tell("response.content_part.done", **here, part=dict(part)),
            self._tell(
                "response.output_item.done", output_index=here["output_index"], item=dict(item)
            ),
        ]

    def _call(self, call: ToolCall) -> list[Told]:
        item = {
            "id": f"fc_{secrets.token_hex(12)}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        index = len(self._items)
        self._items.append(item)
        here = {"item_id": item["id"], "output_index": index}
        begun = {**item, "status": "in_progress", "arguments": ""}
        return [
            self._tell("response.output_item.added", output_index=index, item=begun),
            self._tell("response.function_call_arguments.delta", **here, delta=call.arguments),
            self._tell(
                "response.function_call_arguments.done",
                **here,
                name=call.name,
                arguments=call.arguments,
            ),
            self._tell("response.output_item.done", output_index=index, item=dict(item)),
        ]

    def _here(self) -> dict[str, Any]:
        assert self._open is not None
        return {
            "item_id": self._open["id"],
            "output_index": len(self._items) - 1,
            "content_index": 0,
        }

    def _tell(self, kind: str, /, **fields: Any) -> Told:
        told = {"type": kind, "sequence_number": self._told, **fields}
        self._told += 1
        return told


def _usage(answer: Answer) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
    if not answer.thinking:
        # With thinking, nobody knows which tokens were part of it.
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
    return usage
