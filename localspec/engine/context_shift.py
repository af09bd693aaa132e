"""Where a conversation outgrows the context: drop the oldest turns, keep the system message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.engine.prompt import PromptBuilder
from localspec.engine.settings import ChatMessage, GenerateRequest

_ROOM = 4
"""A shortened prompt leaves at least 1/_ROOM of the context for what is to come."""


def shorten(
    request: GenerateRequest, builder: PromptBuilder, n_answered: int, n_ctx: int
) -> tuple[GenerateRequest, list[int]] | None:
    """The request without its oldest turns, and its prompt tokens, so that they and `n_answered`
    tokens of a begun answer leave a quarter of the context free.

    None when there is nothing more to drop: a system message and one question, or too long an
    answer. Text without turns loses its beginning.
    """
    most = n_ctx - n_ctx // _ROOM - n_answered
    if most < 1:
        return None
    if not request.messages:
        tokens, _ = builder.build(request)
        if len(tokens) < 2:
            return None
        # The first token is BOS where the model wants one.
        kept = [tokens[0], *tokens[1:][-(most - 1) :]] if most > 1 else tokens[-1:]
        return replace(request, prompt="", prompt_tokens=tuple(kept)), kept
    messages: Sequence[ChatMessage] = request.messages
    while True:
        shorter = _without_oldest_turn(messages)
        if shorter is None:
            return None
        messages = shorter
        candidate = replace(request, messages=tuple(messages))
        tokens, _ = builder.build(candidate)
        if len(tokens) <= most:
            return candidate, tokens


def _without_oldest_turn(messages: Sequence[ChatMessage]) -> list[ChatMessage] | None:
    """A turn is a user's message with everything up to the user's next one."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    if len(users) < 2:
        return None
    return [*messages[: users[0]], *messages[users[1] :]]
