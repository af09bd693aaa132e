"""Questions about text, tokens and templates that a loaded model answers without a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localspec.engine.settings import GenerateRequest
from localspec.errors import UsageError

if TYPE_CHECKING:
    # The session's process alone has llama.cpp; who only asks must not load it.
    from localspec.engine.prompt import PromptBuilder
    from localspec.llama.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class TokensOf:
    """Token ids of a text."""

    text: str
    add_special: bool = False
    """Whether BOS and EOS are added where the model wants them."""
    parse_special: bool = True
    """Whether the text of a control token becomes that token."""


@dataclass(frozen=True, slots=True)
class PiecesOf:
    """The bytes of each token."""

    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptOf:
    """The text that a request's messages become."""

    request: GenerateRequest


Question = TokensOf | PiecesOf | PromptOf


def answer(
    question: Question, vocabulary: Vocabulary, builder: PromptBuilder
) -> list[int] | list[bytes] | str:
    """Token ids, pieces, or text. Raises UsageError and TemplateError."""
    if isinstance(question, TokensOf):
        return vocabulary.tokenize(
            question.text,
            add_special=question.add_special,
            parse_special=question.parse_special,
        )
    if isinstance(question, PiecesOf):
        unknown = [token for token in question.tokens if not 0 <= token < vocabulary.n_tokens]
        if unknown:
            raise UsageError(f"token {unknown[0]} is not in a vocabulary of {vocabulary.n_tokens}")
        return [vocabulary.piece(token) for token in question.tokens]
    request = question.request
    return builder.render(request.messages, request.tools, request.template_variables)
