"""A request's prompt, made to fit into the context."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.engine.context_shift import shorten
from localspec.engine.prompt import PromptBuilder
from localspec.engine.settings import GenerateRequest
from localspec.errors import PromptTooLong


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    request: GenerateRequest
    """The request, without its oldest turns where they had to be dropped."""
    tokens: list[int]
    text: str
    """What the chat template made; "" where token ids were given."""


def fit_prompt(
    request: GenerateRequest, builder: PromptBuilder, n_ctx: int, *, context_shift: bool
) -> FittedPrompt:
    """Raises PromptTooLong, TemplateError, UsageError."""
    tokens, text = builder.build(request)
    if len(tokens) < n_ctx:
        return FittedPrompt(request, tokens, text)
    shorter = shorten(request, builder, 0, n_ctx) if context_shift else None
    if shorter is None:
        raise PromptTooLong(
            f"the prompt has {len(tokens)} tokens, the context {n_ctx}",
            hint="a larger --ctx holds it; --context-shift drops the oldest turns instead",
            prompt_tokens=len(tokens),
            n_ctx=n_ctx,
        )
    return FittedPrompt(shorter[0], shorter[1], text)
