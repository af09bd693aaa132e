"""Where an answer parts from plain decoding's, and how near the two tokens were.

Kernels for one token and for several round differently, so at temperature 0 two answers may part
where two tokens are nearly tied. The report says so, with both logits, instead of hiding it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from localspec.bench.contestants import LogitSource, Question
from localspec.bench.samples import Reply


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which two answers part."""

    prompt: str
    """Id of the prompt."""
    index: int
    """Position in the generated tokens, from 0."""
    plain_token: int | None
    """Plain decoding's token; None where its answer had ended."""
    token: int | None
    """The other method's token; None where its answer had ended."""
    plain_logit: float | None = None
    """Plain decoding's logit of `plain_token` at this place; None when nobody could be asked."""
    logit: float | None = None
    """Plain decoding's logit of `token` at the same place."""

    @property
    def gap(self) -> float | None:
        """How far apart the two logits are; None when unknown."""
        if self.plain_logit is None or self.logit is None:
            return None
        return abs(self.plain_logit - self.logit)


def first_difference(prompt: str, plain: Reply, other: Reply) -> Difference | None:
    """The first place at which `other` parts from `plain`; None when they are the same.

    Programs differ in whether the token that ends an answer is listed: one more token at the end
    is no difference when both answers were ended by the model.
    """
    shared = min(len(plain.tokens), len(other.tokens))
    for index in range(shared):
        if plain.tokens[index] != other.tokens[index]:
            return Difference(prompt, index, plain.tokens[index], other.tokens[index])
    if len(plain.tokens) == len(other.tokens):
        return None
    ended_by_model = plain.finish_reason == other.finish_reason == "stop"
    if ended_by_model and abs(len(plain.tokens) - len(other.tokens)) == 1:
        return None
    return Difference(
        prompt,
        shared,
        plain.tokens[shared] if shared < len(plain.tokens) else None,
        other.tokens[shared] if shared < len(other.tokens) else None,
    )


async def with_logits(
    differences: Iterable[Difference],
    questions: Mapping[str, Question],
    plain_replies: Mapping[str, Reply],
    engine: object,
) -> dict[Difference, Difference]:
    """For each difference the same with its two logits, where the engine can tell them.

    questions, plain_replies: by prompt id. An engine that is no LogitSource leaves all as they are.
    """
    known = {difference: difference for difference in differences}
    if not isinstance(engine, LogitSource):
        return known
    for difference in known:
        if difference.plain_token is None or difference.token is None:
            continue
        plain_logit, logit = await engine.next_logits(
            questions[difference.prompt].request(fresh_caches=True),
            plain_replies[difference.prompt].tokens[: difference.index],
            (difference.plain_token, difference.token),
        )
        known[difference] = replace(difference, plain_logit=plain_logit, logit=logit)
    return known
