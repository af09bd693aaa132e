"""Answers that are decoded together are those that each of them is alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from localspec.decoding.sampling import GREEDY, SamplingSettings
from localspec.engine.questions import PiecesOf
from localspec.engine.session import Running, Session
from localspec.engine.settings import GenerateRequest
from localspec.errors import SamplerError
from localspec.events import Answer, PromptProgress
from tests.engine.conftest import Tiny
from tests.support.engine import open_session, tokens_of
from tests.support.tiny_gguf import FAMILIES

pytestmark = pytest.mark.engine

PROMPTS = (
    "the cat and the hat and the cat and the hat; ",
    "one two three four one two three four one two ",
    "a rose is a rose is a rose is a rose ",
    "in the beginning there was the beginning of the ",
)


def request(prompt: str, **options: Any) -> GenerateRequest:
    settings: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 48, "ignore_end": True, **options}
    return GenerateRequest(prompt=prompt, **settings)


def ignore(event: object) -> None:
    """For whom the events are of no interest."""


def together(session: Session, requests: list[GenerateRequest], *, apart: int = 3) -> list[Answer]:
    """All of them, each begun some passes after the one before, as soon as a slot is free."""
    found: dict[int, Answer] = {}
    running: dict[Running, int] = {}
    waiting = list(enumerate(requests))
    while waiting or running:
        if waiting and session.has_free_slot:
            index, next_request = waiting.pop(0)
            running[session.begin(next_request, ignore, lambda: False)] = index
        for _ in range(apart if waiting else 1):
            for over in session.step():
                found[running.pop(over.running)] = over.result()
    return [found[index] for index in range(len(requests))]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_decoded_together_are_those_decoded_alone(tiny: Tiny, family: str) -> None:
    target, draft = tiny(family), tiny(family, noise=0.05)
    with open_session(target, method="none") as session:
        alone = [session.generate(request(prompt), ignore).tokens for prompt in PROMPTS]
    assert len(set(alone)) == len(PROMPTS)
    methods = ("none", "ngram", "model", "auto")
    with open_session(target, draft, method="model", draft_max=6, n_slots=4) as session:
        for turn in range(2):
            rotated = methods[turn:] + methods[:turn]
            requests = [
                request(prompt, method=method)
                for prompt, method in zip(PROMPTS, rotated, strict=True)
            ]
            found = together(session, requests)
            assert [answer.tokens for answer in found] == alone


@pytest.mark.parametrize("n_slots", [2, 3])
def test_sampled_answers_keep_their_seeds_when_slots_are_fewer_than_answers(
    tiny: Tiny, n_slots: int
) -> None:
    requests = [
        request(prompt, sampling=SamplingSettings(temp=1.0, seed=seed, repeat_penalty=1.1))
        for seed, prompt in enumerate(PROMPTS * 2)
    ]
    with open_session(tiny("gqa"), method="none") as session:
        alone = [session.generate(one, ignore).tokens for one in requests]
    with open_session(tiny("gqa"), method="ngram", n_slots=n_slots) as session:
        found = together(session, requests, apart=7)
    assert [answer.tokens for answer in found] == alone


def test_drafts_are_made_and_kept_while_slots_are_shared(tiny: Tiny) -> None:
    target, draft = tiny("llama"), tiny("llama", noise=0.02)
    with open_session(target, draft, method="model", draft_max=8, n_slots=2) as session:
        found = together(session, [request(prompt) for prompt in PROMPTS[:2]])
    for answer in found:
        assert answer.speculation.accepted > 0
        assert answer.speculation.tokens_per_round > 1.2


@pytest.mark.parametrize(("n_running", "most"), [(1, 7), (2, 3), (4, 1)])
def test_a_fuller_batch_has_shorter_drafts(tiny: Tiny, n_running: int, most: int) -> None:
    """Eight rows in every pass: one token of each answer, the rest for drafts."""
    stopped = False
    with open_session(
        tiny("llama"), tiny("llama"), method="model", draft_max=7, n_slots=4, p_min=0.0
    ) as session:
        for prompt in PROMPTS[:n_running]:
            session.begin(request(prompt, max_tokens=None), ignore, lambda: stopped)
        for _ in range(8):
            session.step()
        stopped = True
        answers = [over.result() for over in session.step()]
    lengths = [len(answer.speculation.drafted_per_position) for answer in answers]
    assert len(lengths) == n_running
    assert max(lengths) == most


def test_one_answer_that_ends_early_disturbs_no_other(tiny: Tiny) -> None:
    with open_session(tiny("llama"), method="none") as session:
        alone = [session.generate(request(prompt), ignore).tokens for prompt in PROMPTS[:2]]
    stopped = False
    with open_session(tiny("llama"), method="ngram", n_slots=3) as session:
        leaving = session.begin(request(PROMPTS[2], max_tokens=None), ignore, lambda: stopped)
        staying = [session.begin(request(p), ignore, lambda: False) for p in PROMPTS[:2]]
        for _ in range(5):
            session.step()
        stopped = True
        ended = {over.running: over for over in session.step()}
        cancelled = ended.pop(leaving).result()
        assert cancelled.finish_reason == "cancelled"
        assert session.has_free_slot, "the slot is free within one round"
        while not session.is_idle:
            ended |= {over.running: over for over in session.step()}
        assert [ended[running].result().tokens for running in staying] == alone


def test_an_answer_that_fails_takes_no_other_along(tiny: Tiny) -> None:
    # The grammar wants an `a` after the `b`, and the bias leaves no token that begins with one.
    with open_session(tiny("llama"), method="none") as session:
        n_vocab = session.facts["n_vocab"]
        pieces = session.ask(PiecesOf(tuple(range(n_vocab))))
        banned = tuple((t, -math.inf) for t in range(n_vocab) if pieces[t].startswith(b"a"))
        dead_end = SamplingSettings(temp=0.0, grammar='root ::= "ba"', logit_bias=banned)
        alone = session.generate(request(PROMPTS[0]), ignore).tokens
        with pytest.raises(SamplerError):
            session.generate(request(PROMPTS[1], sampling=dead_end), ignore)
    with open_session(tiny("llama"), method="ngram", n_slots=2) as session:
        staying = session.begin(request(PROMPTS[0]), ignore, lambda: False)
        session.begin(request(PROMPTS[1], sampling=dead_end), ignore, lambda: False)
        over = [ended for _ in range(200) if not session.is_idle for ended in session.step()]
    assert len(over) == 2
    assert next(e for e in over if e.running is staying).result().tokens == alone


def test_a_conversation_comes_back_to_the_slot_that_holds_it(tiny: Tiny) -> None:
    cached: list[PromptProgress] = []

    def note(event: object) -> None:
        if isinstance(event, PromptProgress) and event.done == event.cached:
            cached.append(event)

    with open_session(tiny("llama"), method="none", n_slots=3) as session:
        first = together(session, [request(prompt, max_tokens=8) for prompt in PROMPTS[:3]])
        for index in (1, 2, 0):
            held = len(first[index].tokens) + first[index].prompt_tokens - 1
            tokens = tokens_of(session, PROMPTS[index]) + list(first[index].tokens)
            again = GenerateRequest(
                prompt_tokens=(*tokens, tokens[0]), sampling=GREEDY, max_tokens=2
            )
            running = session.begin(again, note, lambda: False)
            while not session.is_idle:
                session.step()
            assert running.has_ended
            assert cached[-1].cached == held


def test_a_new_conversation_takes_the_slot_that_was_unused_for_longest(tiny: Tiny) -> None:
    with open_session(tiny("llama"), method="none", n_slots=2) as session:
        one = session.begin(request(PROMPTS[0], max_tokens=2), ignore, lambda: False)
        while not session.is_idle:
            session.step()
        two = session.begin(request(PROMPTS[1], max_tokens=2), ignore, lambda: False)
        while not session.is_idle:
            session.step()
        three = session.begin(request(PROMPTS[2], max_tokens=2), ignore, lambda: False)
        assert one.sequence != two.sequence
        assert three.sequence == one.sequence


def test_long_prompts_take_turns_and_answers_go_on(tmp_path: Path, tiny: Tiny) -> None:
    """Three prompts of more than one pass each, in passes of 64 tokens."""
    long = [prompt * 6 for prompt in PROMPTS[:3]]
    with open_session(tiny("llama"), method="none") as session:
        alone = [session.generate(request(prompt), ignore).tokens for prompt in long]
    with open_session(
        tiny("llama"), method="ngram", draft_max=4, n_slots=3, n_batch=64, n_ubatch=64
    ) as session:
        found = together(session, [request(prompt) for prompt in long], apart=1)
    assert [answer.tokens for answer in found] == alone
