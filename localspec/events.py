"""What the engine and the downloads tell while they work: frozen, picklable, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A model is being read from disk."""

    role: str
    """`target` or `draft`."""
    fraction: float
    """0.0 to 1.0."""


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prompt tokens are being evaluated."""

    done: int
    """Tokens in memory so far, reused ones included."""
    total: int
    cached: int
    """How many of them were reused from before."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of the answer."""

    text: str
    drafted: bool
    """Whether the tokens that completed this piece came from a drafter."""
    thinking: bool = False
    """Whether it belongs to a thinking block, not to the answer."""


@dataclass(frozen=True, slots=True)
class TokenChance:
    """How probable the model found a token that was kept, and which it found most probable.

    By the model's own distribution: before temperature, penalties and grammar.
    """

    token: int
    piece: bytes
    """The token's text; it may end inside a character."""
    logprob: float
    """Natural logarithm of the probability."""
    top: tuple[tuple[int, bytes, float], ...] = ()
    """Token, text and logarithm of the most probable ones, the best first."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of the answer; several rounds may be gathered into one."""

    spans: tuple[TextSpan, ...]
    chances: tuple[TokenChance, ...] = ()
    """Of the tokens since the last delta, where the request asked for them. Text that is held back
    comes later than the chances of its tokens."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class RoundDone:
    """Figures of the answer so far, sent a few times a second."""

    completion_tokens: int
    rounds: int
    drafted: int
    accepted: int
    decode_s: float
    n_ctx_used: int


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user should see: a warning with a way out."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Bytes of one file that arrived."""

    role: str
    """`target` or `draft`."""
    name: str
    done: int
    total: int
    rate: float
    """Bytes per second, smoothed; 0.0 when nothing has arrived yet."""
    stage: str
    """`waiting`, `downloading`, `verifying`, `done`."""


@dataclass(frozen=True, slots=True)
class DrafterCounts:
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Speculation:
    """Totals of one answer, the `speculation` object of `run --json` (DESIGN, command line)."""

    method: str
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    accepted_per_position: tuple[int, ...] = ()
    """Entry i: how often the token at draft position i was accepted."""
    drafted_per_position: tuple[int, ...] = ()
    propose_s: float = 0.0
    verify_s: float = 0.0
    rollback_s: float = 0.0
    by_drafter: dict[str, DrafterCounts] = field(default_factory=dict)

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted; 0.0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_round(self) -> float:
        """Tokens per target pass, bonus token included; 1.0 before the first round."""
        return (self.accepted + self.rounds) / self.rounds if self.rounds else 1.0


@dataclass(frozen=True, slots=True)
class Timings:
    load_s: float = 0.0
    """Seconds to load the models; 0.0 when they were loaded already."""
    prompt_s: float = 0.0
    decode_s: float = 0.0
    prompt_tokens: int = 0
    """Tokens evaluated in `prompt_s`, reused ones left out."""
    decode_tokens: int = 0
    """Tokens generated in `decode_s`: those after the first, which the prompt pass yields."""

    @property
    def prompt_tokens_per_second(self) -> float:
        return self.prompt_tokens / self.prompt_s if self.prompt_s else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of one generation."""

    model: str
    text: str
    thinking: str
    tokens: tuple[int, ...]
    """Generated tokens, an end token included."""
    finish_reason: str
    """`stop`, `length`, `cancelled` or `context`."""
    prompt_tokens: int
    cached_tokens: int
    timings: Timings
    speculation: Speculation

    @property
    def completion_tokens(self) -> int:
        return len(self.tokens)
