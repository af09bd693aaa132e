"""The loop: room, wanted tokens, end tokens, rollback, failures, several sequences at once."""

from __future__ import annotations

import pytest

from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.errors import EngineError, SamplerError
from tests.support.decoding_runs import decode
from tests.support.drafters import ScriptedDrafter
from tests.support.fake_target import END, FakeTarget

PROMPT = [5, 6, 7]


def plain_tokens(max_tokens: int = 60, *, ends: bool = False, seed: int = 1) -> list[int]:
    return decode(FakeTarget(ends=ends, seed=seed), PlainPolicy(), PROMPT, max_tokens).tokens


def started(
    drafter: ScriptedDrafter, *, target: FakeTarget | None = None, draft_max: int = 16
) -> tuple[SpeculativeLoop, FakeTarget]:
    target = target or FakeTarget(seed=1)
    target.evaluate(PROMPT)
    loop = SpeculativeLoop(target, FixedPolicy(drafter, draft_max))
    loop.start([*PROMPT, target.sample(2)])
    return loop, target


def test_a_right_draft_is_kept_whole_with_the_bonus_token() -> None:
    text = plain_tokens()
    loop, target = started(ScriptedDrafter(text[1:]), draft_max=4)
    outcome = loop.step(50)
    assert outcome.tokens == tuple(text[1:6])
    assert (outcome.accepted, outcome.drafted, outcome.source) == (4, 4, "scripted")
    assert target.rollbacks == []


def test_a_rejected_tail_is_rolled_back_once_to_the_last_kept_token() -> None:
    text = plain_tokens()
    loop, target = started(ScriptedDrafter(text[1:], wrong_at=frozenset({2})), draft_max=6)
    outcome = loop.step(50)
    assert outcome.tokens == tuple(text[1:4])
    assert outcome.accepted == 2
    assert target.rollbacks == [(len(PROMPT) + 7, len(PROMPT) + 3)]


def test_a_round_evaluates_the_last_token_and_the_draft_in_one_pass() -> None:
    text = plain_tokens()
    loop, target = started(ScriptedDrafter(text[1:]), draft_max=3)
    passes = len(target.passes)
    loop.step(50)
    assert target.passes[passes:] == [tuple(text[:4])]


def test_memory_is_marked_before_a_draft_and_not_in_a_plain_round() -> None:
    loop, target = started(ScriptedDrafter(plain_tokens()[1:4]))
    loop.step(50)
    assert target.marked == len(PROMPT)
    loop.step(50)
    assert len(target.passes[-1]) == 1
    assert target.marked == len(PROMPT)


def test_drafts_leave_room_for_the_bonus_token_among_the_wanted_ones() -> None:
    drafter = ScriptedDrafter(plain_tokens()[1:])
    loop, _ = started(drafter)
    assert len(loop.step(5).tokens) == 5
    assert drafter.asked == [4]


def test_nothing_is_drafted_for_the_last_wanted_token() -> None:
    drafter = ScriptedDrafter(plain_tokens()[1:])
    loop, _ = started(drafter)
    assert loop.step(1).drafted == 0
    assert drafter.asked == []


def test_a_drafter_that_proposes_more_than_asked_is_cut() -> None:
    class Eager(ScriptedDrafter):
        def propose(self, max_tokens: int):  # type: ignore[no-untyped-def]
            return super().propose(max_tokens + 5)

    loop, target = started(Eager(plain_tokens()[1:]))
    assert loop.step(4).drafted == 3
    assert len(target.passes[-1]) == 4


@pytest.mark.parametrize("n_ctx", range(4, 24))
def test_the_context_is_filled_to_its_last_cell_and_never_beyond(n_ctx: int) -> None:
    text = plain_tokens()
    run = decode(
        FakeTarget(seed=1, n_ctx=n_ctx), FixedPolicy(ScriptedDrafter(text[1:]), 8), PROMPT, 60
    )
    assert run.finish_reason == "context"
    assert run.target.n_tokens == n_ctx
    assert run.tokens == text[: n_ctx - len(PROMPT) + 1]


def test_a_full_context_is_refused_by_name() -> None:
    target = FakeTarget(seed=1, n_ctx=3)
    loop, _ = started(ScriptedDrafter([]), target=target)
    assert not loop.has_room
    with pytest.raises(EngineError, match="context is full: 3 of 3"):
        loop.step(5)


def test_nothing_is_kept_or_drawn_after_an_end_token_inside_a_draft() -> None:
    seed = next(s for s in range(200) if 4 < len(plain_tokens(ends=True, seed=s)) < 12)
    text = plain_tokens(ends=True, seed=seed)
    assert text[-1] == END
    target = FakeTarget(seed=seed, ends=True)
    loop, _ = started(ScriptedDrafter([*text[1:], 9, 9, 9]), target=target)
    outcome = loop.step(60)
    assert outcome.tokens == tuple(text[1:])
    assert outcome.accepted == len(text) - 2
    assert target.held == [*PROMPT, *text[:-1]]


def test_a_draft_shorter_than_draft_min_is_dropped() -> None:
    text = plain_tokens()
    target = FakeTarget(seed=1)
    target.evaluate(PROMPT)
    loop = SpeculativeLoop(target, FixedPolicy(ScriptedDrafter(text[1:]), 2), draft_min=3)
    loop.start([*PROMPT, target.sample(2)])
    outcome = loop.step(50)
    assert (outcome.drafted, outcome.source, outcome.tokens) == (0, "none", (text[1],))
    assert target.marked == 0


def test_drafters_see_every_kept_token_and_how_many_were_drafted() -> None:
    text = plain_tokens()
    drafter = ScriptedDrafter(text[1:], wrong_at=frozenset({1, 9}))
    run = decode(FakeTarget(seed=1), FixedPolicy(drafter, 4), PROMPT, 30)
    assert [token for tokens, _ in drafter.seen for token in tokens] == run.tokens[1:]
    assert [accepted for _, accepted in drafter.seen] == [o.accepted for o in run.rounds]


def test_starting_with_a_memory_out_of_step_is_refused() -> None:
    target = FakeTarget()
    target.evaluate(PROMPT)
    loop = SpeculativeLoop(target, PlainPolicy())
    with pytest.raises(EngineError, match="holds 3 tokens where 2 are expected"):
        loop.start(PROMPT)
    with pytest.raises(EngineError, match="has not been started"):
        loop.step(3)


def test_settling_twice_is_refused() -> None:
    loop, _ = started(ScriptedDrafter([]))
    loop.step(3)
    with pytest.raises(EngineError, match="no round to settle"):
        loop.settle()


class Failing(FakeTarget):
    """A sampler that finds no token at the third row, as an impossible grammar does."""

    def sample(self, row: int) -> int:
        if row == 2 and len(self.rows) > 3:
            raise SamplerError("no token is left")
        return super().sample(row)


def test_a_sampler_failure_leaves_the_memory_at_the_last_token_and_goes_on() -> None:
    text = plain_tokens()
    target = Failing(seed=1)
    loop, _ = started(ScriptedDrafter(text[1:]), target=target)
    with pytest.raises(SamplerError):
        loop.step(50)
    assert target.held == [*PROMPT, text[0]]


def test_several_sequences_can_share_one_pass() -> None:
    """`propose` and `settle` apart: rows of the second sequence begin after those of the first."""
    text = plain_tokens()
    loop, target = started(ScriptedDrafter(text[1:]), draft_max=3)
    tokens = loop.propose(20)
    assert tokens == tuple(text[:4])
    target.evaluate(tokens)
    # As if another sequence had taken the first five rows of the batch.
    target.rows = [0, 0, 0, 0, 0, *target.rows]
    outcome = loop.settle(first_row=5, pass_s=0.25)
    assert outcome.tokens == tuple(text[1:5])
    assert outcome.verify_s >= 0.25
