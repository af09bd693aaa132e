"""Totals of an answer's rounds, and the warning when drafting never succeeds."""

from __future__ import annotations

from localspec.decoding.protocols import Round
from localspec.events import DrafterCounts, Notice, Speculation

ZERO_ACCEPTANCE_TOKENS = 64
"""Drafted tokens, none of them accepted, after which a drafter is reported."""

_NOTHING_REPEATS = (
    "the text repeats nothing so far; --draft none saves the time, --draft auto finds out by itself"
)
_CAUSES = {
    "model": "likely a quantised draft KV cache (--draft-kv-type f16), a draft quantised too far, "
    "or a draft of another family (localspec check TARGET DRAFT)",
    "ngram": _NOTHING_REPEATS,
    "lookup": _NOTHING_REPEATS,
}


class RoundStatistics:
    """Adds up rounds. Kept tokens are always accepted + rounds."""

    def __init__(self, method: str) -> None:
        """method: what the user chose, as it stands in `Speculation.method`."""
        self._method = method
        self._rounds = 0
        self._drafted = 0
        self._accepted = 0
        # Drafts by length and rounds by accepted count; positions are summed when asked for.
        self._by_drafted: list[int] = []
        self._by_accepted: list[int] = []
        self._propose_s = 0.0
        self._verify_s = 0.0
        self._rollback_s = 0.0
        self._by_source: dict[str, list[int]] = {}

    def add(self, outcome: Round) -> None:
        self._rounds += 1
        self._propose_s += outcome.propose_s
        self._verify_s += outcome.verify_s
        self._rollback_s += outcome.rollback_s
        drafted, accepted = outcome.drafted, outcome.accepted
        if not drafted:
            return
        self._drafted += drafted
        self._accepted += accepted
        while len(self._by_drafted) < drafted:
            self._by_drafted.append(0)
            self._by_accepted.append(0)
        self._by_drafted[drafted - 1] += 1
        if accepted:
            self._by_accepted[accepted - 1] += 1
        for name, its_drafted, its_accepted in outcome.draft.shares(accepted):
            counts = self._by_source.setdefault(name, [0, 0, 0])
            counts[0] += 1
            counts[1] += its_drafted
            counts[2] += its_accepted

    @property
    def rounds(self) -> int:
        return self._rounds

    @property
    def drafted(self) -> int:
        return self._drafted

    @property
    def accepted(self) -> int:
        return self._accepted

    def speculation(self) -> Speculation:
        """The totals so far."""
        return Speculation(
            method=self._method,
            rounds=self._rounds,
            drafted=self._drafted,
            accepted=self._accepted,
            accepted_per_position=_at_least(self._by_accepted),
            drafted_per_position=_at_least(self._by_drafted),
            propose_s=self._propose_s,
            verify_s=self._verify_s,
            rollback_s=self._rollback_s,
            by_drafter={name: DrafterCounts(*counts) for name, counts in self._by_source.items()},
        )


class ZeroAcceptanceWatch:
    """Notices, once for each drafter, that nothing it proposed was ever accepted.

    It outlives single answers: give it the rounds of all answers with the same models.
    """

    def __init__(self) -> None:
        self._drafted: dict[str, int] = {}
        self._settled: set[str] = set()

    def add(self, outcome: Round) -> Notice | None:
        """The one-time notice when this round makes it due, None otherwise."""
        # Who went on with another drafter's tokens is judged by the rounds of its own.
        source, its_drafted, its_accepted = outcome.draft.shares(outcome.accepted)[0]
        if not outcome.drafted or source in self._settled:
            return None
        if its_accepted:
            self._settled.add(source)
            return None
        drafted = self._drafted.get(source, 0) + its_drafted
        self._drafted[source] = drafted
        if drafted < ZERO_ACCEPTANCE_TOKENS:
            return None
        self._settled.add(source)
        return Notice(
            f"the {source} drafter proposed {drafted} tokens and none was accepted",
            hint=_CAUSES.get(source, "another --draft may suit this model better"),
        )


def _at_least(by_length: list[int]) -> tuple[int, ...]:
    """Entry i: how many lengths were at least i + 1, from how many were exactly i + 1."""
    total, sums = 0, []
    for count in reversed(by_length):
        total += count
        sums.append(total)
    return tuple(reversed(sums))
