"""Totals of rounds, and the one-time notice when nothing is ever accepted."""

from __future__ import annotations

from localspec.decoding.protocols import NO_DRAFT, Draft, Round
from localspec.decoding.statistics import RoundStatistics, ZeroAcceptanceWatch
from localspec.events import DrafterCounts


def a_round(drafted: int, accepted: int, source: str = "ngram") -> Round:
    draft = Draft(tuple(range(drafted)), source) if drafted else NO_DRAFT
    return Round(
        tokens=tuple(range(accepted + 1)),
        accepted=accepted,
        drafted=drafted,
        source=draft.source,
        draft=draft,
        propose_s=0.5,
        verify_s=2.0,
        rollback_s=0.25,
    )


def test_totals_positions_and_drafters_add_up() -> None:
    statistics = RoundStatistics("auto")
    for outcome in (a_round(4, 2), a_round(0, 0), a_round(2, 2, "model"), a_round(3, 0)):
        statistics.add(outcome)
    totals = statistics.speculation()
    assert (totals.method, totals.rounds, totals.drafted, totals.accepted) == ("auto", 4, 9, 4)
    assert totals.drafted_per_position == (3, 3, 2, 1)
    assert totals.accepted_per_position == (2, 2, 0, 0)
    assert totals.by_drafter == {
        "ngram": DrafterCounts(rounds=2, drafted=7, accepted=2),
        "model": DrafterCounts(rounds=1, drafted=2, accepted=2),
    }
    assert (totals.propose_s, totals.verify_s, totals.rollback_s) == (2.0, 8.0, 1.0)
    assert totals.tokens_per_round == 2.0


def test_no_rounds_are_no_division_by_zero() -> None:
    totals = RoundStatistics("none").speculation()
    assert totals.acceptance_rate == 0.0
    assert totals.tokens_per_round == 1.0


def test_sixty_four_rejected_tokens_are_told_once_with_the_cause() -> None:
    watch = ZeroAcceptanceWatch()
    told = [watch.add(a_round(16, 0, "model")) for _ in range(8)]
    notices = [notice for notice in told if notice is not None]
    assert [notice is not None for notice in told].index(True) == 3
    assert len(notices) == 1
    assert "64 tokens" in notices[0].message
    assert "--draft-kv-type" in notices[0].hint


def test_one_accepted_token_settles_a_drafter_for_good() -> None:
    watch = ZeroAcceptanceWatch()
    assert watch.add(a_round(4, 1)) is None
    assert all(watch.add(a_round(16, 0)) is None for _ in range(20))


def test_drafters_are_watched_apart() -> None:
    watch = ZeroAcceptanceWatch()
    watch.add(a_round(4, 4, "ngram"))
    told = [watch.add(a_round(16, 0, "model")) for _ in range(4)]
    assert told[3] is not None


def test_a_draft_of_two_drafters_credits_each_with_its_own_tokens() -> None:
    first = Draft((1, 2, 3), "ngram", (0.9, 0.9, 0.9), 3)
    both = first.followed_by(Draft((4, 5), "model", (0.8, 0.7)))
    assert both.shares(2) == (("ngram", 3, 2), ("model", 2, 0))
    assert both.shares(4) == (("ngram", 3, 3), ("model", 2, 1))
    assert both.first(4).shares(4) == (("ngram", 3, 3), ("model", 1, 1))
    assert both.first(3).shares(3) == (("ngram", 3, 3),)
    statistics = RoundStatistics("auto")
    statistics.add(Round((1, 2, 3, 4, 9), 4, 5, both.source, both, 0.0, 1.0, 0.0))
    assert statistics.speculation().by_drafter == {
        "ngram": DrafterCounts(rounds=1, drafted=3, accepted=3),
        "model": DrafterCounts(rounds=1, drafted=2, accepted=1),
    }
