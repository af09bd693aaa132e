"""The law: on F32 models, speculation gives plain decoding's tokens, in every kind of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localspec.decoding.sampling import SamplingSettings
from localspec.engine.session import Session
from tests.engine.conftest import Tiny
from tests.support.engine import answer, open_session, tokens_of
from tests.support.tiny_gguf import FAMILIES

PROMPT = "the cat and the hat and the cat and the hat; the rat and the "
LONG_PROMPT = PROMPT * 3
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
SAMPLED = SamplingSettings(temp=0.8, top_k=40, top_p=0.95, min_p=0.0, seed=11)


def _methods() -> list[dict[str, Any]]:
    return [
        {"method": "ngram", "fixed_length": True},
        {"method": "ngram"},
        {"method": "model"},
        {"method": "auto"},
    ]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_drafter_gives_plain_tokens_in_every_memory(
    tiny: Tiny, family: str, seed: int
) -> None:
    draft = tiny(family, seed=seed, noise=0.05)
    accepted = rejected = 0
    with open_session(tiny(family, seed=seed), draft, p_min=0.0, draft_max=16) as session:
        plain = answer(session, PROMPT, max_tokens=72, ignore_end=True)
        assert len(plain.tokens) == 72
        for options in _methods():
            found = answer(session, PROMPT, max_tokens=72, ignore_end=True, **options)
            assert found.tokens == plain.tokens, options
            assert found.text == plain.text
            accepted += found.speculation.accepted
            rejected += found.speculation.drafted - found.speculation.accepted
    # A test in which nothing was ever accepted, or nothing rolled back, would prove nothing.
    assert accepted > 20
    assert rejected > 20


@pytest.mark.parametrize("family", FAMILIES)
def test_every_draft_length_gives_plain_tokens(tiny: Tiny, family: str) -> None:
    draft = tiny("llama", seed=3, noise=0.0) if family != "llama" else tiny("llama", noise=0.05)
    with open_session(tiny(family, seed=4), draft, p_min=0.0, draft_max=16) as session:
        plain = answer(session, PROMPT, max_tokens=40, ignore_end=True)
        for length in LENGTHS:
            for options in ({"method": "ngram", "fixed_length": True}, {"method": "model"}):
                found = answer(
                    session, PROMPT, max_tokens=40, ignore_end=True, draft_max=length, **options
                )
                assert found.tokens == plain.tokens, (length, options)
                assert len(found.speculation.drafted_per_position) <= length


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_plain_tokens_at_any_temperature_behind_sure_drafts(
    tiny: Tiny, family: str
) -> None:
    """Sample-and-match: every kept token is one draw of the target's own sampler."""
    with open_session(tiny(family, seed=5), draft_max=6) as session:
        plain = answer(session, PROMPT, sampling=SAMPLED, max_tokens=60, ignore_end=True)
        for options in _methods()[:2]:
            found = answer(
                session, PROMPT, sampling=SAMPLED, max_tokens=60, ignore_end=True, **options
            )
            assert found.tokens == plain.tokens, options


@pytest.mark.parametrize(
    "chain",
    [
        {"mirostat": 2, "mirostat_tau": 3.0},
        {"xtc_probability": 0.5, "xtc_threshold": 0.05},
        {"grammar": 'root ::= ("the " | "cat " | "hat " | "and ")+'},
    ],
    ids=["mirostat", "xtc", "grammar"],
)
def test_a_seed_gives_plain_tokens_behind_a_draft_model_where_nothing_can_be_drawn_ahead(
    tiny: Tiny, chain: dict[str, Any]
) -> None:
    """Chains that remember or are random in themselves keep sample-and-match."""
    sampling = replace(SAMPLED, **chain)
    draft = tiny("llama", seed=5, noise=0.02)
    with open_session(tiny("llama", seed=5), draft, p_min=0.0, draft_max=6) as session:
        plain = answer(session, PROMPT, sampling=sampling, max_tokens=60, ignore_end=True)
        accepted = 0
        for options in _methods():
            found = answer(
                session, PROMPT, sampling=sampling, max_tokens=60, ignore_end=True, **options
            )
            assert found.tokens == plain.tokens, options
            accepted += found.speculation.accepted
        assert accepted > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_repeats_the_answer_that_a_draft_model_helped_to_draw(
    tiny: Tiny, family: str
) -> None:
    """Drawn drafts keep the distribution, not plain decoding's own draws: the answer is another
    one, but the same each time, also where memory already holds the prompt."""
    draft = tiny(family, seed=5, noise=0.02)
    with open_session(tiny(family, seed=5), draft, p_min=0.0, draft_max=6) as session:
        first, again, warm = (
            answer(
                session,
                PROMPT,
                "model",
                sampling=SAMPLED,
                max_tokens=60,
                ignore_end=True,
                fresh=fresh,
            )
            for fresh in (True, True, False)
        )
        assert first.tokens == again.tokens == warm.tokens
        assert 0 < first.speculation.accepted < first.speculation.drafted
        other = answer(
            session,
            PROMPT,
            "model",
            sampling=replace(SAMPLED, seed=12),
            max_tokens=60,
            ignore_end=True,
        )
        assert other.tokens != first.tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reused_prefix_changes_nothing(tiny: Tiny, family: str) -> None:
    """The same turns with and without what the turns before left in memory."""
    draft = tiny(family, seed=6, noise=0.05)
    turns = [PROMPT, PROMPT + "bat and the mat; the cat", PROMPT + "bat and a cow", "on the mat"]
    with open_session(tiny(family, seed=6), draft, p_min=0.0, draft_max=8) as session:
        fresh = [answer(session, turn, max_tokens=24, ignore_end=True) for turn in turns]
        reused = 0
        for options in _methods():
            for turn, expected in zip(turns, fresh, strict=True):
                found = answer(
                    session, turn, max_tokens=24, ignore_end=True, fresh=False, **options
                )
                assert found.tokens == expected.tokens, (turn, options)
                reused += found.cached_tokens
        _continue_a_conversation(session)
    if family not in ("recurrent", "hybrid", "hybrid_rollback"):
        # Memory that can only go forward starts over where a turn was changed.
        assert reused > 0


def _continue_a_conversation(session: Session) -> None:
    """A prompt that goes on from the last answer reuses all of it, recurrent models too."""
    vocabulary = tokens_of(session, PROMPT)
    first = answer(session, tuple(vocabulary), max_tokens=16, ignore_end=True)
    # The newest token was never evaluated; what stands before it is in memory.
    going_on = (*vocabulary, *first.tokens)
    second = answer(session, going_on, "ngram", max_tokens=16, ignore_end=True, fresh=False)
    assert second.cached_tokens == len(going_on) - 1
    again = answer(session, going_on, max_tokens=16, ignore_end=True)
    assert again.cached_tokens == 0
    assert second.tokens == again.tokens


def test_a_sliding_window_is_left_behind_and_still_exact(tiny: Tiny) -> None:
    """Window 32, prompt and answer far beyond it, drafts and rollbacks all along."""
    draft = tiny("swa", seed=7, noise=0.05)
    with open_session(tiny("swa", seed=7), draft, p_min=0.0, draft_max=12, n_ubatch=32) as session:
        plain = answer(session, LONG_PROMPT, max_tokens=200, ignore_end=True)
        accepted = 0
        for options in _methods():
            found = answer(session, LONG_PROMPT, max_tokens=200, ignore_end=True, **options)
            assert found.tokens == plain.tokens, options
            accepted += found.speculation.accepted
        assert accepted > 20


@pytest.mark.parametrize("method", ["ngram", "model", "auto"])
def test_quantised_text_stays_within_rounding_of_the_maximum(tiny: Tiny, method: str) -> None:
    """What F32 proves by equality holds for the answer's own logits: each emitted token is the
    maximum of a pass over the finished text, up to the difference between pass widths."""
    from localspec.llama.batch import Outputs

    target, draft = tiny("gqa", seed=8), tiny("gqa", seed=8, noise=0.05)
    with open_session(target, draft, p_min=0.0, draft_max=8, n_ctx=512) as session:
        found = answer(session, PROMPT, method, max_tokens=15, ignore_end=True)
        prompt = tokens_of(session, PROMPT)
        context = session._target.context
        context.clear()
        context.evaluate(prompt[:-1], Outputs.NONE)
        # As many rows as a round may ask for hold the last prompt token and the answer.
        text = [prompt[-1], *found.tokens[:-1]][: context.n_outputs_max]
        context.evaluate(text, Outputs.ALL)
        for row, token in zip(context.logits, found.tokens, strict=False):
            assert row.max() - row[token] <= 0.03
