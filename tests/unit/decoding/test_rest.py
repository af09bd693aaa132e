"""Where drafts are never worth it, asking rests too; where they are, nobody notices."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.protocols import NO_DRAFT, Draft, Round
from localspec.decoding.rest import Rest

PLAIN_S = 0.005


class Asked:
    """An n-gram drafter that counts how often it is asked."""

    def __init__(self) -> None:
        self.drafter = NgramDrafter()
        self.questions = 0

    @property
    def name(self) -> str:
        return "ngram"

    def begin(self, tokens: Sequence[int]) -> None:
        self.drafter.begin(tokens)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        self.drafter.observe(tokens, accepted)

    def propose(self, max_tokens: int) -> Draft:
        self.questions += 1
        return self.drafter.propose(max_tokens)


def play(controller: Controller, text: list[int], *, asking_s: float) -> list[int]:
    """Decode `text` with it; the draft length of every round."""
    controller.begin(text[:1])
    lengths, at = [], 1
    while at < len(text):
        draft = controller.propose(16)
        accepted = 0
        room = len(text) - at - 1
        while accepted < min(len(draft), room) and draft.tokens[accepted] == text[at + accepted]:
            accepted += 1
        lengths.append(len(draft))
        controller.observe(
            Round(
                tokens=tuple(text[at : at + accepted + 1]),
                accepted=accepted,
                drafted=len(draft),
                source=draft.source,
                draft=draft,
                propose_s=0.0 if controller.is_resting else asking_s,
                verify_s=PLAIN_S * (1.0 + 0.1 * len(draft)),
                rollback_s=0.0,
            )
        )
        at += accepted + 1
    return lengths


def controller_of(drafter: Asked) -> Controller:
    known = {1: PLAIN_S, 2: 1.1 * PLAIN_S, 17: 2.6 * PLAIN_S}
    return Controller([drafter], cost=CostCurve(known, max_width=17))


def test_text_that_repeats_nothing_is_asked_about_a_quarter_as_often() -> None:
    drafter = Asked()
    play(controller_of(drafter), list(range(400)), asking_s=0.0001)
    assert 100 <= drafter.questions <= 130


def test_where_a_pass_is_long_every_round_is_asked() -> None:
    drafter = Asked()
    play(controller_of(drafter), list(range(400)), asking_s=0.01 * PLAIN_S / 10)
    assert drafter.questions == 399


def test_a_rest_ends_with_the_text_that_caused_it() -> None:
    """No more than three tokens late, and nothing of what was said meanwhile is unknown."""
    fresh = list(range(1000, 1200))
    block = list(range(20))
    lengths = play(controller_of(Asked()), fresh + block * 12, asking_s=0.0001)
    awake = play(controller_of(Asked()), fresh + block * 12, asking_s=0.0)
    assert len(lengths) <= len(awake) + 3


def test_rounds_of_rest_are_counted_as_plain_ones() -> None:
    controller = controller_of(Asked())
    rounds = len(play(controller, list(range(100)), asking_s=0.0001))
    none = controller.explain()["choices"]["none"]
    assert none["rounds"] == rounds == 99
    assert none["tokens_per_round"] == pytest.approx(1.0)


def test_a_new_answer_is_asked_about_at_once() -> None:
    rest = Rest()
    for _ in range(20):
        rest.asked(0.001, PLAIN_S, in_vain=True)
    assert rest.begins_round()
    rest.begin()
    assert not rest.begins_round()


def test_the_index_knows_every_token_when_it_is_asked() -> None:
    at_once, late = NgramDrafter(), NgramDrafter()
    text = [1, 2, 3, 4, 1, 2, 3]
    at_once.begin(text)
    late.begin(text[:1])
    for token in text[1:]:
        late.observe([token], 0)
    assert late.propose(4) == at_once.propose(4) != NO_DRAFT
