"""What parent and child say to each other over the pipe: requests in, events out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localspec.engine.questions import Question
from localspec.engine.settings import EmbedRequest, GenerateRequest


@dataclass(frozen=True, slots=True)
class Generate:
    id: int
    request: GenerateRequest


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about text, tokens and templates."""

    id: int
    question: Question


@dataclass(frozen=True, slots=True)
class NextLogits:
    """What plain decoding would weigh after the prompt of `request` and `continuation`."""

    id: int
    request: GenerateRequest
    continuation: tuple[int, ...]
    candidates: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Embed:
    id: int
    request: EmbedRequest


@dataclass(frozen=True, slots=True)
class Explain:
    id: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop request `id` if it is running or waiting; 0 stops loading."""

    id: int


@dataclass(frozen=True, slots=True)
class Close:
    """Save what is to be saved, and end."""


Request = Generate | Embed | Ask | NextLogits | Explain | Cancel | Close

LOADING = 0
"""The id of everything that is said before the first request."""


@dataclass(frozen=True, slots=True)
class Said:
    """Something about request `id`, which goes on."""

    id: int
    event: Any


@dataclass(frozen=True, slots=True)
class Done:
    """The result of request `id`, which has ended."""

    id: int
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Request `id` has ended with an error (`LocalspecError.as_dict`)."""

    id: int
    error: dict[str, Any]


Reply = Said | Done | Failed
"""The child sends lists of them: what the answers of one pass have to say is one message."""
