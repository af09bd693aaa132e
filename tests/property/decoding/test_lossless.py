"""The law of speculation: whatever is proposed, the text is the target's own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.lookup import LookupDrafter
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.decoding.protocols import Policy
from localspec.decoding.statistics import RoundStatistics
from tests.support.decoding_runs import Run, decode
from tests.support.drafters import DRAFTERS, drafter_like
from tests.support.fake_target import FakeDraftModel, FakeTarget

SEEDS = st.integers(0, 10_000)


@st.composite
def targets(draw: st.DrawFn) -> dict[str, object]:
    return {
        "n_ctx": draw(st.integers(12, 120)),
        "n_vocab": draw(st.integers(4, 20)),
        "order": draw(st.integers(1, 2)),
        "seed": draw(SEEDS),
        "sampler_seed": draw(st.none() | SEEDS),
        "ends": draw(st.booleans()),
        "recurrent": draw(st.booleans()),
    }


def check_lossless(
    options: dict[str, object], policy: Policy, max_tokens: int, draft_min: int = 0
) -> Run:
    prompt = [3, 2, 1, 3, 2]
    plain = decode(FakeTarget(**options), PlainPolicy(), prompt, max_tokens)  # type: ignore[arg-type]
    run = decode(
        FakeTarget(**options),  # type: ignore[arg-type]
        policy,
        prompt,
        max_tokens,
        draft_min=draft_min,
    )
    assert run.tokens == plain.tokens
    assert run.finish_reason == plain.finish_reason
    assert run.target.draws == plain.target.draws
    check_statistics(run)
    return run


def check_statistics(run: Run) -> None:
    statistics = RoundStatistics("ngram")
    for outcome in run.rounds:
        assert 0 <= outcome.accepted <= outcome.drafted == len(outcome.draft)
        assert outcome.tokens[: outcome.accepted] == outcome.draft.tokens[: outcome.accepted]
        assert len(outcome.tokens) == outcome.accepted + 1
        statistics.add(outcome)
    totals = statistics.speculation()
    assert totals.accepted + totals.rounds == len(run.tokens) - 1
    assert sum(totals.accepted_per_position) == totals.accepted
    assert sum(totals.drafted_per_position) == totals.drafted
    assert sum(count.drafted for count in totals.by_drafter.values()) == totals.drafted
    assert sum(count.accepted for count in totals.by_drafter.values()) == totals.accepted
    drafts = [outcome for outcome in run.rounds if outcome.drafted]
    assert sum(count.rounds for count in totals.by_drafter.values()) == len(drafts)
    for place, drafted in enumerate(totals.drafted_per_position):
        assert drafted == sum(outcome.drafted > place for outcome in drafts)
        assert totals.accepted_per_position[place] == sum(o.accepted > place for o in drafts)


@pytest.mark.parametrize("kind", DRAFTERS)
@settings(max_examples=60, deadline=None)
@given(
    options=targets(),
    draft_max=st.integers(1, 16),
    draft_min=st.integers(0, 3),
    max_tokens=st.integers(1, 90),
)
def test_every_drafter_yields_the_text_of_plain_decoding(
    kind: str, options: dict[str, object], draft_max: int, draft_min: int, max_tokens: int
) -> None:
    drafter = drafter_like(kind, FakeTarget(**options))  # type: ignore[arg-type]
    check_lossless(options, FixedPolicy(drafter, draft_max), max_tokens, draft_min)


@settings(max_examples=60, deadline=None)
@given(
    options=targets(),
    draft_max=st.integers(1, 16),
    max_tokens=st.integers(1, 90),
    wrong_every=st.integers(0, 6),
    draft_recurrent=st.booleans(),
)
def test_the_controller_yields_the_text_of_plain_decoding(
    options: dict[str, object],
    draft_max: int,
    max_tokens: int,
    wrong_every: int,
    draft_recurrent: bool,
) -> None:
    target = FakeTarget(**options)  # type: ignore[arg-type]
    model = FakeDraftModel(
        n_ctx=target.n_ctx,
        n_vocab=target.n_vocab + 3,
        order=target.order,
        seed=target.seed,
        wrong_every=wrong_every,
        recurrent=draft_recurrent,
    )
    policy = Controller(
        [NgramDrafter(min_confidence=0.05), LookupDrafter(min_confidence=0.05)],
        [ModelDrafter(model, n_vocab=target.n_vocab)],
        cost=CostCurve({1: 1.0, 17: 1.0}),
        draft_max=draft_max,
    )
    check_lossless(options, policy, max_tokens)


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("draft_max", range(1, 17))
def test_every_draft_length_is_used_and_lossless(kind: str, draft_max: int) -> None:
    options: dict[str, object] = {"n_ctx": 300, "n_vocab": 6, "order": 1, "seed": 5}
    drafter = drafter_like(kind, FakeTarget(**options))  # type: ignore[arg-type]
    run = check_lossless(options, FixedPolicy(drafter, draft_max), 200)
    assert max(outcome.drafted for outcome in run.rounds) == draft_max or kind == "lookup"
    assert sum(outcome.accepted for outcome in run.rounds) > 0


@settings(max_examples=40, deadline=None)
@given(first=SEEDS, lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4), cut=SEEDS)
@pytest.mark.parametrize("kind", DRAFTERS)
def test_turns_that_share_a_prefix_stay_lossless(
    kind: str, first: int, lengths: list[int], cut: int
) -> None:
    """A drafter that lives through several conversations, each an edit of the one before."""
    options: dict[str, object] = {"n_ctx": 400, "n_vocab": 8, "order": 1, "seed": first}
    policy = FixedPolicy(drafter_like(kind, FakeTarget(**options)), 8)  # type: ignore[arg-type]
    prompt = [1, 2, 3]
    for turn, length in enumerate(lengths):
        plain = decode(FakeTarget(**options), PlainPolicy(), prompt, length)  # type: ignore[arg-type]
        run = decode(FakeTarget(**options), policy, prompt, length)  # type: ignore[arg-type]
        assert run.tokens == plain.tokens
        whole = [*prompt, *run.tokens]
        prompt = [*whole[: 1 + cut % len(whole)], 4 + turn % 3, 2]
