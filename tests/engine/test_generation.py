"""How answers end, what limits them, and what they say about themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from localspec.decoding.sampling import GREEDY, SamplingSettings
from localspec.engine.settings import ChatMessage, GenerateRequest
from localspec.errors import PromptTooLong, SamplerError, TemplateError, UsageError
from localspec.events import Notice, PromptProgress, RoundDone, TextDelta
from tests.engine.conftest import Tiny
from tests.support.engine import answer, open_session
from tests.support.tiny_gguf import write_tiny

PROMPT = "the cat and the hat and the cat and the hat; the rat and the "
METHODS = ("none", "ngram", "model", "auto")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["llama", "swa", "recurrent", "hybrid", "hybrid_rollback"])
def test_an_answer_ends_where_the_context_does(tiny: Tiny, family: str, method: str) -> None:
    """Drafts never run past it (llama.cpp #10641, #22554), and every cell is used."""
    draft = tiny(family, seed=1, noise=0.02)
    with open_session(tiny(family, seed=1), draft, n_ctx=256, p_min=0.0) as session:
        n_ctx = session.facts["n_ctx"]
        found = answer(session, PROMPT, method, max_tokens=None, ignore_end=True)
        assert found.finish_reason == "context"
        # The newest token needs no cell of its own.
        assert found.prompt_tokens + len(found.tokens) == n_ctx + 1
        plain = answer(session, PROMPT, max_tokens=None, ignore_end=True)
        assert found.tokens == plain.tokens


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("most", [0, 1, 2, 3, 17])
def test_max_tokens_is_exact(tiny: Tiny, method: str, most: int) -> None:
    with open_session(tiny("llama"), tiny("llama"), p_min=0.0) as session:
        found = answer(session, PROMPT, method, max_tokens=most, ignore_end=True)
        assert len(found.tokens) == most
        assert found.finish_reason == "length"


def test_a_draft_with_a_smaller_context_stops_drafting_and_nothing_else(tiny: Tiny) -> None:
    with open_session(tiny("llama"), tiny("llama"), n_ctx=256, p_min=0.0) as session:
        plain = answer(session, PROMPT, max_tokens=180, ignore_end=True)
        found = answer(session, PROMPT, "model", max_tokens=180, ignore_end=True)
        assert found.tokens == plain.tokens
        assert found.speculation.acceptance_rate > 0.9


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(tiny: Tiny) -> None:
    with open_session(tiny("llama"), n_ctx=256) as session:
        with pytest.raises(PromptTooLong, match=r"256") as caught:
            answer(session, "ab " * 400)
        assert caught.value.fields["n_ctx"] == 256
        assert answer(session, PROMPT, max_tokens=4).tokens, "the session still answers"


def test_context_shift_drops_the_oldest_turns_and_goes_on(tiny: Tiny) -> None:
    messages = (
        ChatMessage("system", "be brief"),
        *(
            ChatMessage(role, f"turn {turn}: the cat and the hat")
            for turn in range(3)
            for role in ("user", "assistant")
        ),
        ChatMessage("user", "and the rat?"),
    )
    request = GenerateRequest(
        messages=messages, sampling=GREEDY, max_tokens=90, method="ngram", ignore_end=True
    )
    with open_session(tiny("llama"), n_ctx=256) as session:
        stopped = session.generate(request, lambda event: None)
        assert stopped.finish_reason == "context"
    with open_session(tiny("llama"), n_ctx=256, context_shift=True) as session:
        shifted = session.generate(request, lambda event: None)
        assert shifted.finish_reason == "length"
        assert len(shifted.tokens) == 90
        assert shifted.tokens[: len(stopped.tokens)] == stopped.tokens
        held = b"".join(
            session._target.model.vocabulary.piece(token)
            for token in session._target.context.tokens()
        )
        assert b"be brief" in held
        assert b"turn 0" not in held


def test_stop_strings_end_the_text_before_them_under_speculation(tiny: Tiny) -> None:
    with open_session(tiny("llama"), tiny("llama"), p_min=0.0) as session:
        plain = answer(session, PROMPT, max_tokens=60, ignore_end=True)
        stop = plain.text[20:23]
        for method in METHODS:
            found = answer(session, PROMPT, method, max_tokens=60, ignore_end=True, stop=(stop,))
            assert found.finish_reason == "stop"
            assert found.text == plain.text[: plain.text.index(stop)]
            assert plain.tokens[: len(found.tokens)] == found.tokens


@pytest.mark.parametrize("method", METHODS)
def test_a_grammar_holds_under_speculation(tiny: Tiny, method: str) -> None:
    """The draft model knows nothing of the grammar (vllm #36138)."""
    grammar = 'root ::= "[" item ("," item)* "]"\nitem ::= [0-9] [0-9]?'
    with open_session(tiny("llama"), tiny("llama"), p_min=0.0, draft_max=6) as session:
        for seed in range(12):
            sampling = SamplingSettings(temp=1.0, seed=seed, grammar=grammar)
            found = answer(session, PROMPT, method, sampling=sampling, max_tokens=200)
            plain = answer(session, PROMPT, sampling=sampling, max_tokens=200)
            assert found.tokens == plain.tokens
            if found.finish_reason == "stop":
                numbers = found.text.removeprefix("[").removesuffix("]").split(",")
                assert all(number.isdigit() and len(number) <= 2 for number in numbers)
                assert found.text[0] + found.text[-1] == "[]"


def test_an_impossible_grammar_is_an_error_and_the_session_goes_on(tiny: Tiny) -> None:
    with open_session(tiny("llama"), tiny("llama"), p_min=0.0) as session:
        with pytest.raises(UsageError, match="grammar"):
            answer(session, PROMPT, sampling=SamplingSettings(temp=0, grammar="root ::= (("))
        vocabulary = session._target.model.vocabulary
        # The grammar wants an `a` where a bias forbids every token that begins with one.
        banned = tuple(
            (token, -math.inf)
            for token in range(vocabulary.n_tokens)
            if vocabulary.piece(token).startswith(b"a")
        )
        assert banned
        for temp in (0.0, 1.0):
            dead_end = SamplingSettings(temp=temp, grammar='root ::= "ba"', logit_bias=banned)
            for method in METHODS:
                with pytest.raises(SamplerError, match="grammar"):
                    answer(session, PROMPT, method, sampling=dead_end)
        assert answer(session, PROMPT, max_tokens=4).tokens


def test_draft_and_target_draw_alike_behind_penalties_and_bias(tiny: Tiny) -> None:
    """A draft with the target's own weights, filtered by the same rules behind the same tokens, is
    never rejected: any difference in what the two look back on would show."""
    settings = (
        SamplingSettings(temp=0.9, seed=1, repeat_penalty=1.3),
        SamplingSettings(temp=0.9, seed=1, frequency_penalty=0.7, repeat_last_n=-1),
        SamplingSettings(temp=0.9, seed=2, presence_penalty=2.0, repeat_last_n=5),
        SamplingSettings(temp=0.9, seed=3, dry_multiplier=0.8, dry_penalty_last_n=20),
        SamplingSettings(temp=0.7, seed=4, typical_p=0.9, logit_bias=((100, 3.0), (101, -9.0))),
    )
    with open_session(tiny("llama"), tiny("llama"), p_min=0.0) as session:
        for sampling in settings:
            found = answer(
                session, PROMPT, "model", sampling=sampling, max_tokens=96, ignore_end=True
            )
            # Passes of different widths round apart by little; one token in a thousand tells.
            assert found.speculation.drafted > 60
            assert found.speculation.accepted >= found.speculation.drafted - 1, sampling


def test_penalties_and_bias_give_the_same_tokens_with_and_without_drafts(tiny: Tiny) -> None:
    settings = (
        SamplingSettings(temp=0, repeat_penalty=1.3),
        SamplingSettings(temp=0, presence_penalty=0.5, frequency_penalty=0.5, repeat_last_n=-1),
        SamplingSettings(temp=0.9, seed=1, dry_multiplier=0.8),
        SamplingSettings(temp=0.9, seed=2, typical_p=0.9),
        SamplingSettings(temp=0.9, seed=3, xtc_probability=0.5, xtc_threshold=0.05),
        SamplingSettings(temp=0.9, seed=4, mirostat=2),
        SamplingSettings(temp=0.9, seed=5, mirostat=1),
        SamplingSettings(temp=0, logit_bias=((100, 50.0),)),
    )
    with open_session(tiny("llama"), tiny("llama", noise=0.02), p_min=0.0) as session:
        seen = set()
        for sampling in settings:
            plain = answer(session, PROMPT, sampling=sampling, max_tokens=32, ignore_end=True)
            seen.add(plain.tokens)
            # A draft model draws its tokens where the chain allows it: the same distribution, but
            # not the same draws.
            methods = ("ngram",) if sampling.draws_from_softmax else METHODS[1:]
            for method in methods:
                found = answer(
                    session, PROMPT, method, sampling=sampling, max_tokens=32, ignore_end=True
                )
                assert found.tokens == plain.tokens, (sampling, method)
        assert len(seen) == len(settings), "every setting changes the text"
        assert set(plain.tokens) == {100}


def test_figures_of_an_answer_add_up(tiny: Tiny) -> None:
    """Statistics elsewhere are missing or miscounted (llama.cpp #12603, #14104, #25682)."""
    with open_session(tiny("llama"), tiny("llama", noise=0.05), p_min=0.0) as session:
        for method in METHODS:
            events: list[Any] = []
            found = answer(session, PROMPT, method, max_tokens=50, ignore_end=True, events=events)
            counts = found.speculation
            assert len(found.tokens) == 1 + counts.rounds + counts.accepted
            assert counts.accepted == sum(counts.accepted_per_position)
            assert counts.drafted == sum(counts.drafted_per_position)
            by_drafter = counts.by_drafter.values()
            assert counts.drafted == sum(drafter.drafted for drafter in by_drafter)
            assert counts.accepted == sum(drafter.accepted for drafter in by_drafter)
            assert found.timings.decode_tokens == 49
            assert 0 < counts.verify_s <= found.timings.decode_s
            text = "".join(event.text for event in events if isinstance(event, TextDelta))
            assert text == found.text
            last = [event for event in events if isinstance(event, RoundDone)][-1]
            assert (last.drafted, last.accepted) == (counts.drafted, counts.accepted)
            progress = [event for event in events if isinstance(event, PromptProgress)]
            assert progress[-1].done == progress[-1].total == found.prompt_tokens


def test_zero_acceptance_is_noticed_once(tiny: Tiny) -> None:
    """An over-quantised or foreign draft that never succeeds goes unnoticed elsewhere (#25725)."""
    stranger = tiny("moe", seed=9)
    events: list[Any] = []
    with open_session(tiny("llama"), stranger, p_min=0.0, draft_max=16) as session:
        for _ in range(3):
            answer(session, PROMPT, "model", max_tokens=20, ignore_end=True, events=events)
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "none was accepted" in notices[0].message


def test_a_broken_template_is_one_error_and_raw_prompts_still_work(
    tiny: Tiny, tmp_path: Any
) -> None:
    for template in ("{% for m in messages %}", "{{ ''.__class__.__mro__ }}", "{{ 1 / 0 }}"):
        path = write_tiny(tmp_path / "template.gguf", "llama", chat_template=template)
        with open_session(path) as session:
            with pytest.raises(TemplateError):
                session.generate(
                    GenerateRequest(messages=(ChatMessage("user", "hello"),)), lambda event: None
                )
            assert answer(session, PROMPT, max_tokens=4).tokens


def test_a_model_without_a_template_is_answered_in_chatml_with_a_notice(tmp_path: Any) -> None:
    path = write_tiny(tmp_path / "plain.gguf", "llama", chat_template=None)
    events: list[Any] = []
    request = GenerateRequest(messages=(ChatMessage("user", "hi"),), max_tokens=4, sampling=GREEDY)
    with open_session(path) as session:
        session.generate(request, events.append)
        session.generate(request, events.append)
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "ChatML" in notices[0].message


def test_model_without_a_draft_model_is_refused_with_a_way_out(tiny: Tiny) -> None:
    with open_session(tiny("llama")) as session, pytest.raises(UsageError, match="draft model"):
        answer(session, PROMPT, "model")


def test_bos_is_added_once(tmp_path: Any) -> None:
    """Templates that write BOS themselves, and a tokenizer that adds it: one, not two."""
    writes = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    leaves = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    for name, template in (("writes", writes), ("leaves", leaves)):
        path = write_tiny(tmp_path / f"{name}.gguf", "llama", chat_template=template, add_bos=True)
        with open_session(path) as session:
            request = GenerateRequest(
                messages=(ChatMessage("user", "hello"),), max_tokens=1, sampling=GREEDY
            )
            session.generate(request, lambda event: None)
            bos = session._target.model.vocabulary.bos
            assert bos is not None
            assert list(session._target.context.tokens()).count(bos) == 1, name


def test_memory_that_cannot_go_back_is_decoded_plainly_and_says_so(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if llama.cpp could neither cut nor save the state of this architecture."""
    from localspec.errors import EngineError
    from localspec.llama.context import Context

    def refuse(self: Context, sequence: int = 0) -> None:
        raise EngineError("no state")

    with open_session(tiny("recurrent")) as session:
        plain = answer(session, PROMPT, max_tokens=30, ignore_end=True)
    monkeypatch.setattr(Context, "mark", refuse)
    events: list[Any] = []
    with open_session(tiny("recurrent"), method="ngram", emit=events.append) as session:
        found = answer(session, PROMPT, "ngram", max_tokens=30, ignore_end=True)
    assert found.tokens == plain.tokens
    assert found.speculation.drafted == 0
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "decoded plainly" in notices[0]
