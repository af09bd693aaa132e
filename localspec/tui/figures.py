"""Figures of the running answer and of the conversation, gathered from the engine's events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from localspec.events import Answer, RoundDone

_WINDOW_S = 1.5
"""`now` is the rate over this long."""
_SPARK_EVERY_S = 0.5


@dataclass(slots=True)
class MethodTotals:
    """All answers of one drafter in this conversation."""

    tokens: int = 0
    """Decoded ones, those that were timed."""
    seconds: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_round(self) -> float:
        return (self.accepted + self.rounds) / self.rounds if self.rounds else 1.0


@dataclass(slots=True)
class Meter:
    """What the speculation panel shows."""

    now: float = 0.0
    """Tokens per second over the last moment."""
    average: float = 0.0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    n_ctx_used: int = 0
    spark: deque[float] = field(default_factory=lambda: deque(maxlen=240))
    positions: tuple[tuple[int, int], ...] = ()
    """Of the last answer that drafted: accepted and drafted at each position."""
    drafters: dict[str, int] = field(default_factory=dict)
    """Of the last answer: accepted tokens by drafter."""
    target_tokens: int = 0
    """Of the last answer: tokens that were the target's own."""
    plain_rate: float | None = None
    """Tokens per second of plain decoding, measured or as the controller knows it."""
    by_method: dict[str, MethodTotals] = field(default_factory=dict)
    running: bool = False
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _sparked: float = 0.0

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_round(self) -> float:
        return (self.accepted + self.rounds) / self.rounds if self.rounds else 1.0

    @property
    def gain(self) -> float | None:
        """Over plain decoding; None while that is not known."""
        if not self.plain_rate or not self.average:
            return None
        return self.average / self.plain_rate

    def begin(self) -> None:
        """A new answer starts."""
        self.now = self.average = 0.0
        self.tokens = self.rounds = self.drafted = self.accepted = 0
        self.running = True
        self._recent.clear()
        self._sparked = 0.0

    def update(self, event: RoundDone) -> None:
        self.tokens = event.completion_tokens
        self.rounds, self.drafted = event.rounds, event.drafted
        self.accepted, self.n_ctx_used = event.accepted, event.n_ctx_used
        at = event.decode_s
        self._recent.append((at, event.completion_tokens))
        while len(self._recent) > 2 and at - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()
        first_at, first = self._recent[0]
        if at > first_at:
            self.now = (event.completion_tokens - first) / (at - first_at)
        # The first token comes from the prompt pass and takes no decoding time.
        self.average = max(0, event.completion_tokens - 1) / at if at else 0.0
        if self.now and at - self._sparked >= _SPARK_EVERY_S:
            self._sparked = at
            self.spark.append(self.now)

    def finish(self, answer: Answer, method: str) -> None:
        """The answer is over: its exact figures replace the running ones."""
        self.running = False
        spec = answer.speculation
        self.tokens = answer.completion_tokens
        self.rounds, self.drafted, self.accepted = spec.rounds, spec.drafted, spec.accepted
        if answer.timings.decode_tokens_per_second:
            self.average = answer.timings.decode_tokens_per_second
        if spec.drafted_per_position:
            self.positions = tuple(
                (spec.accepted_per_position[i] if i < len(spec.accepted_per_position) else 0, count)
                for i, count in enumerate(spec.drafted_per_position)
            )
        self.drafters = {
            name: counts.accepted for name, counts in spec.by_drafter.items() if counts.accepted
        }
        self.target_tokens = max(0, answer.completion_tokens - spec.accepted)
        totals = self.by_method.setdefault(method, MethodTotals())
        totals.tokens += answer.timings.decode_tokens
        totals.seconds += answer.timings.decode_s
        totals.rounds += spec.rounds
        totals.drafted += spec.drafted
        totals.accepted += spec.accepted
        if method == "none" and totals.rate:
            self.plain_rate = totals.rate
