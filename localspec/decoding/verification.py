"""Which draft tokens are kept: sample-and-match for sure tokens, p against q for drawn ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

from localspec.decoding.protocols import Target

if TYPE_CHECKING:
    from localspec.decoding.distribution import Distribution


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target said at the places of one draft."""

    tokens: tuple[int, ...]
    """What it kept or drew: `accepted` of them were drafted, the last is the bonus token."""

    @property
    def accepted(self) -> int:
        """Draft tokens that are kept.

        The last token of a round always counts as the bonus token, an end token included: so kept
        tokens are accepted + 1 in every round, and all statistics add up.
        """
        return len(self.tokens) - 1


def verify(
    target: Target,
    draft_tokens: Sequence[int],
    first_row: int = 0,
    proposals: Sequence[Distribution | None] = (),
) -> Verdict:
    """Keep the longest prefix of `draft_tokens` that the target accepts, each by its own rule.

    first_row: the output row of the token before the draft; row first_row + i conditions on i
    draft tokens. proposals: of each token the distribution it was drawn from; None, or no entry,
    for a sure one.

    A sure token is kept if the target draws it itself, so a draft of sure tokens ends in what plain
    decoding with the same sampler state gives. A drawn one is kept with probability min(1, p / q)
    and else replaced: the target's distribution, but not its own draws. Nothing is drawn past an
    end token.
    Raises SamplerError when no token is left to choose.
    Leviathan et al., arXiv:2211.17192, section 2; a sure token is one of q = 1.
    """
    if not draft_tokens:
        return Verdict((target.sample(first_row),))
    kept: list[int] = []
    row = first_row
    for draft_token, proposal in zip(draft_tokens, chain(proposals, repeat(None)), strict=False):
        token = target.sample(row) if proposal is None else target.judge(row, draft_token, proposal)
        kept.append(token)
        if token != draft_token or target.is_end(token):
            return Verdict(tuple(kept))
        row += 1
    kept.append(target.sample(row))
    return Verdict(tuple(kept))
