"""Real models from wheels: what the algorithm promises holds on text that people would read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localspec.decoding.sampling import GREEDY
from localspec.engine.session import Session
from localspec.engine.settings import ChatMessage, GenerateRequest
from localspec.events import Answer
from localspec.llama.batch import Outputs
from localspec.llama.context import Context
from tests.support import models
from tests.support.engine import open_session

CODE = "Write a Python class for a binary search tree with insert, search and delete."
CHAT = "Why is the sky blue?"
EDIT = (
    'Add the field "active": true to every one of these JSON records:\n'
    '[{"id": 1, "name": "Alice", "age": 30},\n {"id": 2, "name": "Bob", "age": 25},\n'
    ' {"id": 3, "name": "Carol", "age": 41},\n {"id": 4, "name": "Dave", "age": 37}]'
)
METHODS = ("ngram", "model", "auto")


def _ask(
    session: Session,
    question: str,
    method: str,
    max_tokens: int = 96,
    *,
    fresh: bool = True,
    fixed: bool = False,
) -> Answer:
    """fixed: drafts as long as the drafter will, whatever this machine's passes cost."""
    request = GenerateRequest(
        messages=(ChatMessage("user", question),),
        sampling=GREEDY,
        max_tokens=max_tokens,
        method=method,
        fresh_caches=fresh,
        fixed_length=fixed,
    )
    return session.generate(request, lambda event: None)


@pytest.fixture(scope="module")
def f32() -> Iterator[Session]:
    """SmolLM2 as F32 with its Q4_0 copy as draft, as the program would load them."""
    with open_session(
        models.smollm2_f32(),
        models.smollm2_q4_0(),
        kv_type="f16",
        flash_attn="auto",
        n_threads=0,
        n_ctx=2048,
    ) as session:
        yield session


@pytest.mark.parametrize("question", [CODE, CHAT, EDIT], ids=["code", "chat", "edit"])
def test_speculation_gives_the_f32_models_very_tokens(f32: Session, question: str) -> None:
    plain = _ask(f32, question, "none")
    assert len(plain.tokens) > 30
    for method in METHODS:
        found = _ask(f32, question, method)
        assert found.tokens == plain.tokens, method
        assert found.text == plain.text


def test_a_copy_of_coarser_type_drafts_well(f32: Session) -> None:
    """Q4_0 drafting for F32 was measured at 0.8 to 0.5 accepted, by draft length."""
    found = _ask(f32, CODE, "model")
    assert found.speculation.drafted > 30
    assert found.speculation.acceptance_rate > 0.5
    assert found.speculation.tokens_per_round > 1.5


def test_a_second_turn_evaluates_only_what_is_new(f32: Session) -> None:
    first = _ask(f32, CHAT, "ngram", 24)
    messages = (
        ChatMessage("user", CHAT),
        ChatMessage("assistant", first.text),
        ChatMessage("user", "And at sunset?"),
    )
    request = GenerateRequest(messages=messages, sampling=GREEDY, max_tokens=8, method="ngram")
    second = f32.generate(request, lambda event: None)
    assert second.cached_tokens >= first.prompt_tokens
    assert second.prompt_tokens - second.cached_tokens < 40


def test_a_repeated_question_is_drafted_from_the_sessions_own_cache(f32: Session) -> None:
    cold = _ask(f32, CHAT, "ngram", fixed=True)
    _ask(f32, CHAT, "ngram", fresh=False, fixed=True)
    warm = _ask(f32, CHAT, "ngram", fresh=False, fixed=True)
    assert warm.tokens == cold.tokens
    assert warm.speculation.tokens_per_round > 2 * cold.speculation.tokens_per_round


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_quantised_answers_keep_to_the_maximum_up_to_rounding(name: str) -> None:
    """Passes of different widths round apart; every emitted token is the maximum of a pass over
    the finished text, up to twice what the two kinds of passes differ here."""
    path = models.smollm2() if name == "smollm2" else models.gemma3()
    with open_session(
        path, kv_type="f16", flash_attn="auto", n_threads=0, n_ctx=2048, method="ngram"
    ) as session:
        found = _ask(session, CODE, "ngram", 120, fixed=True)
        assert found.speculation.accepted > 0
        context = session._target.context
        tokens = [*list(context.tokens())[: found.prompt_tokens], *found.tokens]
        rounding = _rounding(context, tokens)
        assert rounding < 4.0
        context.clear()
        start = found.prompt_tokens
        context.evaluate(tokens[: start - 1], Outputs.NONE)
        for begin in range(start - 1, len(tokens) - 1, context.n_outputs_max):
            chunk = tokens[begin : min(begin + context.n_outputs_max, len(tokens) - 1)]
            context.evaluate(chunk, Outputs.ALL)
            for row, token in zip(context.logits, tokens[begin + 1 :], strict=False):
                assert row.max() - row[token] <= 2 * rounding


def _rounding(context: Context, tokens: list[int]) -> float:
    """The largest difference between the logits after a prompt in one pass, as answers begin, and
    after the same tokens with the last few in passes of their own."""
    most = 0.0
    for end in range(32, len(tokens), 16):
        context.clear()
        context.evaluate(tokens[:end], Outputs.LAST)
        together = context.logits[0].copy()
        context.clear()
        context.evaluate(tokens[: end - 4], Outputs.NONE)
        for token in tokens[end - 4 : end]:
            context.evaluate([token], Outputs.LAST)
        most = max(most, float(abs(context.logits[0] - together).max()))
    return most
