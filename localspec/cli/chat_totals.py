"""Sums over the answers of one chat."""

from __future__ import annotations

from localspec.events import Answer, DrafterCounts


class ChatTotals:
    """What all answers of a chat did together."""

    def __init__(self) -> None:
        self.answers = 0
        self.tokens = 0
        self.rounds = 0
        self.drafted = 0
        self.accepted = 0
        self.last: Answer | None = None
        self.by_drafter: dict[str, DrafterCounts] = {}
        self._decode_tokens = 0
        self._decode_s = 0.0

    def add(self, answer: Answer) -> None:
        self.answers += 1
        self.tokens += answer.completion_tokens
        self._decode_tokens += answer.timings.decode_tokens
        self._decode_s += answer.timings.decode_s
        speculation = answer.speculation
        self.rounds += speculation.rounds
        self.drafted += speculation.drafted
        self.accepted += speculation.accepted
        self.last = answer
        for name, counts in speculation.by_drafter.items():
            before = self.by_drafter.get(name, DrafterCounts())
            self.by_drafter[name] = DrafterCounts(
                before.rounds + counts.rounds,
                before.drafted + counts.drafted,
                before.accepted + counts.accepted,
            )

    @property
    def tokens_per_second(self) -> float:
        """Decoding alone, all answers together; 0.0 before the first."""
        return self._decode_tokens / self._decode_s if self._decode_s else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted; 0.0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_round(self) -> float:
        """Tokens per target pass, bonus token included; 1.0 before the first round."""
        return (self.accepted + self.rounds) / self.rounds if self.rounds else 1.0
