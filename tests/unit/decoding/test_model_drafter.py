"""The draft-model drafter: in step with the text, nothing decoded twice, every limit kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from localspec.decoding.chain import ChainDrafter
from localspec.decoding.distribution import Distribution
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.policies import FixedPolicy
from localspec.decoding.protocols import Draft
from localspec.decoding.sampling import SamplingSettings
from tests.support.decoding_runs import decode
from tests.support.drafters import ScriptedDrafter
from tests.support.fake_target import FakeDraftModel, FakeDraftSampler, FakeTarget, next_token

PROMPT = [3, 4, 5, 6]


class Recording(FakeDraftModel):
    """Remembers what it was asked to evaluate and where."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.passes: list[tuple[int, tuple[int, ...]]] = []

    def evaluate(self, tokens: Sequence[int]) -> None:
        self.passes.append((len(self.held), tuple(tokens)))
        super().evaluate(tokens)


def text_after(tokens: list[int], count: int) -> tuple[int, ...]:
    held = list(tokens)
    for _ in range(count):
        held.append(next_token(held, n_vocab=32, order=2) or 1)
    return tuple(held[len(tokens) :])


def test_it_proposes_the_drafts_own_greedy_text_with_its_probabilities() -> None:
    drafter = ModelDrafter(FakeDraftModel(wrong_every=0, probability=0.8), n_vocab=32)
    drafter.begin(PROMPT)
    draft = drafter.propose(5)
    assert draft.tokens == text_after(PROMPT, 5)
    assert draft.confidences == (0.8,) * 5
    assert draft.source == "model"


def test_the_prompt_is_evaluated_in_begin_and_the_rest_when_it_proposes() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    assert model.passes == [(0, (3, 4, 5))]
    drafter.propose(2)
    assert model.passes[1] == (3, (6,))


def test_a_lazy_drafter_touches_its_model_only_when_asked() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32, eager=False)
    drafter.begin(PROMPT)
    drafter.observe([9, 9], 0)
    assert model.passes == []
    assert drafter.n_missing == 6
    drafter.propose(1)
    assert model.passes == [(0, (3, 4, 5, 6, 9, 9))]


def test_an_accepted_draft_is_not_decoded_again_but_its_last_token_is_replayed() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    draft = drafter.propose(3)
    model.passes.clear()
    drafter.observe([*draft.tokens, 11], 3)
    drafter.propose(1)
    # Two of the three draft tokens were evaluated while drafting; the third and the bonus were not.
    assert model.passes == [(6, (draft.tokens[2], 11))]


def test_a_rejected_tail_is_rolled_back_and_only_the_difference_decoded() -> None:
    model = Recording(wrong_every=0, recurrent=True)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    draft = drafter.propose(6)
    model.passes.clear()
    drafter.observe([draft.tokens[0], draft.tokens[1], 30], 2)
    assert model.held == [*PROMPT, draft.tokens[0], draft.tokens[1]]
    drafter.propose(1)
    assert model.passes == [(6, (30,))]


def test_tokens_of_other_drafters_and_plain_rounds_are_caught_up_in_one_pass() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    drafter.observe([7], 0)
    drafter.observe([8, 9, 10], 2)
    model.passes.clear()
    drafter.propose(1)
    assert model.passes == [(3, (6, 7, 8, 9, 10))]


def test_over_a_whole_answer_no_position_is_decoded_twice_but_after_a_rejection() -> None:
    model = FakeDraftModel(wrong_every=7)
    policy = FixedPolicy(ModelDrafter(model, n_vocab=32), 5)
    run = decode(FakeTarget(), policy, PROMPT, 200)
    # Of every draft all but the last token is evaluated; what was rejected of them is the only
    # work that is done in vain.
    in_vain = sum(
        max(0, outcome.drafted - 1 - outcome.accepted) for outcome in run.rounds if outcome.drafted
    )
    assert in_vain > 0
    assert model.evaluated - in_vain == len(model.held)
    assert len(model.held) <= len(PROMPT) + len(run.tokens)


def test_it_drafts_behind_tokens_that_were_only_guessed_in_one_pass_with_what_it_missed() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    drafter.observe([7, 8], 1)
    model.passes.clear()
    draft = drafter.propose(3, after=[20, 21])
    assert draft.tokens == text_after([*PROMPT, 7, 8, 20, 21], 3)
    assert model.passes[0] == (3, (6, 7, 8, 20, 21))
    assert [tokens for _, tokens in model.passes[1:]] == [(token,) for token in draft.tokens[:2]]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kept", range(6))
def test_guesses_and_what_was_drafted_behind_them_are_kept_as_far_as_the_target_agrees(
    kept: int, recurrent: bool
) -> None:
    model = Recording(wrong_every=0, recurrent=recurrent)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    guessed = (20, 21)
    whole = (*guessed, *drafter.propose(3, after=guessed).tokens)
    said = (*whole[:kept], 30)
    drafter.observe(said, kept)
    # The last token of the draft was never evaluated, whether it was accepted or not.
    assert model.held == [*PROMPT, *whole[: min(kept, 4)]]
    model.passes.clear()
    assert drafter.propose(2).tokens == text_after([*PROMPT, *said], 2)
    assert model.passes[0] == (len(PROMPT) + min(kept, 4), said[min(kept, 4) :])


@pytest.mark.parametrize("recurrent", [False, True])
def test_asked_again_in_a_round_behind_other_guesses_it_keeps_what_they_share(
    recurrent: bool,
) -> None:
    model = Recording(wrong_every=0, recurrent=recurrent)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    drafter.propose(2, after=[20, 21, 22])
    model.passes.clear()
    draft = drafter.propose(1, after=[20, 21, 9])
    assert draft.tokens == text_after([*PROMPT, 20, 21, 9], 1)
    assert model.passes == [(6, (9,))]
    drafter.observe([11], 0)
    assert model.held == PROMPT
    assert drafter.propose(2).tokens == text_after([*PROMPT, 11], 2)


def test_guesses_that_are_never_verified_leave_no_trace() -> None:
    drafter = ModelDrafter(FakeDraftModel(wrong_every=0), n_vocab=32)
    drafter.begin(PROMPT)
    drafter.propose(2, after=[20, 21, 22])
    assert drafter.propose(3).tokens == text_after(PROMPT, 3)


@pytest.mark.parametrize("n_ctx", range(4, 12))
def test_guesses_count_in_the_room_of_the_drafts_context(n_ctx: int) -> None:
    model = FakeDraftModel(n_ctx=n_ctx, wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    # Prompt, two guesses, and all of the draft but its last token.
    assert len(drafter.propose(4, after=[20, 21])) == min(4, max(0, n_ctx - len(PROMPT) - 1))
    assert len(model.held) <= n_ctx


def test_a_new_turn_reuses_the_common_prefix() -> None:
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    drafter.propose(1)
    model.passes.clear()
    drafter.begin([*PROMPT[:2], 20, 21])
    assert model.passes == [(2, (20,))]


def test_recurrent_memory_starts_again_when_the_prefix_changed_before_its_mark() -> None:
    model = Recording(wrong_every=0, recurrent=True)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    drafter.propose(1)
    model.passes.clear()
    drafter.begin([*PROMPT[:2], 20, 21])
    assert model.passes == [(0, (3, 4, 20))]


def test_after_an_interrupted_pass_the_next_answer_starts_from_a_known_memory() -> None:
    class Interrupted(Recording):
        def evaluate(self, tokens: Sequence[int]) -> None:
            super().evaluate(tokens)
            if len(self.passes) == 2:
                raise KeyboardInterrupt

    model = Interrupted(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.begin(PROMPT)
    with pytest.raises(KeyboardInterrupt):
        drafter.propose(4)
    drafter.begin([*PROMPT, 9])
    assert model.held == PROMPT
    assert drafter.propose(3).tokens == text_after([*PROMPT, 9], 3)


def test_it_stops_at_p_min() -> None:
    class Doubtful(FakeDraftModel):
        def best(self) -> tuple[int, float]:
            return 7, 0.9 if len(self.held) < len(PROMPT) + 2 else 0.5

    drafter = ModelDrafter(Doubtful(), n_vocab=32, p_min=0.6)
    drafter.begin(PROMPT)
    assert len(drafter.propose(10)) == 2
    drafter = ModelDrafter(FakeDraftModel(probability=0.5), n_vocab=32, p_min=0.6)
    drafter.begin(PROMPT)
    assert drafter.propose(10).tokens == ()


def test_it_stops_where_the_whole_draft_becomes_unlikely() -> None:
    drafter = ModelDrafter(FakeDraftModel(probability=0.8), n_vocab=32, p_min=0.6)
    drafter.stop_below = 0.5
    drafter.begin(PROMPT)
    assert len(drafter.propose(10)) == 3


@pytest.mark.parametrize("most", [1, 3, 8])
def test_it_never_proposes_more_than_asked_or_than_its_cap(most: int) -> None:
    drafter = ModelDrafter(FakeDraftModel(wrong_every=0), n_vocab=32, draft_max=6)
    drafter.begin(PROMPT)
    assert len(drafter.propose(most)) == min(most, 6)


def test_ids_beyond_the_targets_vocabulary_are_never_proposed() -> None:
    class Padded(FakeDraftModel):
        def best(self) -> tuple[int, float]:
            return (40 if len(self.held) > len(PROMPT) else 5), 0.9

    drafter = ModelDrafter(Padded(), n_vocab=32)
    drafter.begin(PROMPT)
    assert drafter.propose(8).tokens == (5,)


@pytest.mark.parametrize("n_ctx", range(2, 30))
def test_a_draft_with_a_smaller_context_stops_where_it_is_full(n_ctx: int) -> None:
    model = FakeDraftModel(n_ctx=n_ctx, wrong_every=0)
    run = decode(FakeTarget(), FixedPolicy(ModelDrafter(model, n_vocab=32), 8), PROMPT, 60)
    assert len(run.tokens) == 60
    assert len(model.held) <= n_ctx
    drafted = sum(outcome.drafted for outcome in run.rounds)
    assert (drafted > 0) == (n_ctx >= len(PROMPT) + 1)


def test_a_chain_asks_the_model_only_where_the_first_has_nothing() -> None:
    text = decode(FakeTarget(), FixedPolicy(ScriptedDrafter([]), 4), PROMPT, 40).tokens
    model = FakeDraftModel(wrong_every=0)
    scripted = ScriptedDrafter(text[1:20])
    chain = ChainDrafter([scripted, ModelDrafter(model, n_vocab=32)])
    run = decode(FakeTarget(), FixedPolicy(chain, 4), PROMPT, 40)
    assert run.tokens == text
    sources = [outcome.source for outcome in run.rounds]
    assert sources == sorted(sources, key=["scripted", "model", "none"].index)
    assert {"scripted", "model"} <= set(sources)


def test_a_chain_of_nothing_proposes_nothing() -> None:
    chain = ChainDrafter([ScriptedDrafter([]), ScriptedDrafter([])])
    chain.begin([1])
    assert chain.propose(4) == Draft((), "none")


DRAWN = SamplingSettings(temp=0.7)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        SamplingSettings(temp=0.0),
        SamplingSettings(mirostat=2),
        SamplingSettings(xtc_probability=0.5),
        SamplingSettings(grammar='root ::= "a"'),
    ],
    ids=["none", "greedy", "mirostat", "xtc", "grammar"],
)
def test_where_nothing_can_be_drawn_ahead_its_likeliest_tokens_are_sure_ones(
    settings: SamplingSettings | None,
) -> None:
    drafter = ModelDrafter(FakeDraftModel(wrong_every=0), n_vocab=32)
    drafter.sample_as(DRAWN)
    drafter.sample_as(settings)
    drafter.begin(PROMPT)
    draft = drafter.propose(4)
    assert not drafter.draws
    assert draft.tokens == text_after(PROMPT, 4)
    assert draft.proposals == ()
    assert not draft.is_drawn


def test_drawn_tokens_carry_what_they_were_drawn_from_and_a_confidence_from_before_the_draw() -> (
    None
):
    model = Recording(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.sample_as(DRAWN)
    drafter.begin(PROMPT)
    draft = drafter.propose(3)
    assert draft.is_drawn
    assert draft.confidences == (1.0,) * 3
    for token, proposal in zip(draft.tokens, draft.proposals, strict=True):
        assert proposal is not None
        assert proposal.probability_of(token) == 1.0
    # The last of them is not evaluated, as ever.
    assert [tokens for _, tokens in model.passes[2:]] == [(token,) for token in draft.tokens[:2]]


def test_what_draws_hears_the_conversation_and_every_guess_in_order() -> None:
    model = FakeDraftModel(wrong_every=0)
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.sample_as(DRAWN)
    sampler = model.samplers[-1]
    drafter.begin(PROMPT)
    assert sampler.history == PROMPT
    draft = drafter.propose(2, after=[20, 21])
    assert sampler.drawn == [20, 21, *draft.tokens]
    drafter.observe([20, 9], 1)
    assert sampler.history == [*PROMPT, 20, 9]
    drafter.propose(1)
    assert len(sampler.drawn) == 1


def test_what_drew_for_one_answer_is_closed_before_the_next() -> None:
    model = FakeDraftModel()
    drafter = ModelDrafter(model, n_vocab=32)
    drafter.sample_as(DRAWN)
    drafter.sample_as(DRAWN)
    assert [sampler.closed for sampler in model.samplers] == [1, 0]
    drafter.close()
    drafter.close()
    assert [sampler.closed for sampler in model.samplers] == [1, 1]


@pytest.mark.parametrize("said", [0, 2])
def test_a_draft_goes_no_further_than_it_has_something_to_say(said: int) -> None:
    class Speechless(FakeDraftSampler):
        def distribution(self) -> Distribution | None:
            return None if len(self.drawn) == said else super().distribution()

    model = FakeDraftModel(wrong_every=0)
    model.make_sampler = Speechless
    drafter = ModelDrafter(model, n_vocab=32, p_min=0.0)
    drafter.sample_as(DRAWN)
    drafter.begin(PROMPT)
    assert len(drafter.propose(4)) == said


def test_a_probability_that_is_no_number_ends_a_draft() -> None:
    class Broken(FakeDraftModel):
        def best(self) -> tuple[int, float]:
            return 7, math.nan

    drafter = ModelDrafter(Broken(), n_vocab=32, p_min=0.0)
    drafter.begin(PROMPT)
    assert drafter.propose(4).tokens == ()


def test_a_draft_that_goes_on_with_another_keeps_what_is_known_of_each_token() -> None:
    law = Distribution(np.array([5], np.int32), np.ones(1))
    sure = Draft((1, 2), "ngram", (0.9, 0.8), 4)
    drawn = Draft((5,), "model", (0.7,), proposals=(law,))
    both = sure.followed_by(drawn)
    known = ((1, 2, 5), "ngram", (0.9, 0.8, 0.7), 4, (None, None, law), "model", 2)
    assert both == Draft(*known)
    assert both.is_drawn
    assert both.first(2) == Draft((1, 2), "ngram", (0.9, 0.8), 4, (None, None))
    assert not both.first(2).is_drawn
    assert sure.followed_by(Draft((), "none")) is sure
    assert sure.followed_by(Draft((3,), "model")).confidences == ()
    assert drawn.followed_by(sure).proposals == (law,)
