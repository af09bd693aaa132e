"""Whole answers of the fake target, with any policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.protocols import Policy, Round
from tests.support.fake_target import FakeTarget


@dataclass(frozen=True, slots=True)
class Run:
    tokens: list[int]
    """Generated tokens, the one from the prompt pass included."""
    rounds: list[Round]
    finish_reason: str
    target: FakeTarget


def decode(
    target: FakeTarget,
    policy: Policy,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    draft_min: int = 0,
) -> Run:
    """Answer `prompt` as an engine does: prompt pass, first token, then rounds.

    Checks what has to hold between any two rounds: memory is the conversation without its newest
    token.
    """
    target.evaluate(prompt)
    tokens = [target.sample(len(prompt) - 1)]
    loop = SpeculativeLoop(target, policy, draft_min=draft_min)
    loop.start([*prompt, *tokens])
    rounds: list[Round] = []
    while True:
        if target.is_end(tokens[-1]):
            return Run(tokens, rounds, "stop", target)
        if len(tokens) >= max_tokens:
            return Run(tokens, rounds, "length", target)
        if not loop.has_room:
            return Run(tokens, rounds, "context", target)
        outcome = loop.step(max_tokens - len(tokens))
        rounds.append(outcome)
        tokens.extend(outcome.tokens)
        assert target.held == [*prompt, *tokens][:-1]
        assert loop.last_token == tokens[-1]
