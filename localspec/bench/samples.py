"""What one measured answer tells: the raw material of every figure in the report."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.events import Speculation


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer with its times, from our engine or from another program."""

    text: str
    tokens: tuple[int, ...]
    """Generated tokens."""
    prompt_tokens: int
    """Tokens of the prompt, reused ones included."""
    decode_tokens: int
    """Tokens after the first; the first one comes out of the prompt pass."""
    decode_s: float
    """Seconds in which `decode_tokens` were generated."""
    finish_reason: str
    drafted: int = 0
    accepted: int = 0
    speculation: Speculation | None = None
    """Totals by position and time; None where the program does not tell."""

    @property
    def rate(self) -> float:
        """Tokens per second of decoding, first token and prompt left out; 0.0 without a second
        token."""
        return self.decode_tokens / self.decode_s if self.decode_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply and what it was measured for."""

    method: str
    """Name of the contestant."""
    workload: str
    prompt: str
    """Id of the prompt."""
    repeat: int
    """0 for the first time round."""
    order: int
    """Place in the sequence of all measured answers, from 0."""
    warm: bool
    """Whether caches and memory were kept from the same prompt before: never mixed with others."""
    reply: Reply
