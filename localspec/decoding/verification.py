"""Which draft tokens are kept: sample-and-match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.decoding.protocols import Target


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target said itself at the places of one draft."""

    tokens: tuple[int, ...]
    """The target's own draws: `accepted` of them were drafted, the last is the bonus token."""

    @property
    def accepted(self) -> int:
        """Draft tokens that are kept.

        The last token of a round always counts as the bonus token, an end token included: so kept
        tokens are accepted + 1 in every round, and all statistics add up.
        """
        return len(self.tokens) - 1


def verify(target: Target, draft_tokens: Sequence[int], first_row: int = 0) -> Verdict:
    """Keep the longest prefix of `draft_tokens` that the target would have sampled itself.

    first_row: the output row of the token before the draft; row first_row + i conditions on i
    draft tokens. Each kept token is one draw of the target's sampler, in order, so the result is
    what plain decoding with the same sampler state gives; nothing is drawn past an end token.
    Raises SamplerError when no token is left to choose.
    Sample-and-match form of Leviathan et al., arXiv:2211.17192, section 2, for a drafter that
    proposes one sure token at each place.
    """
    kept: list[int] = []
    row = first_row
    for draft_token in draft_tokens:
        token = target.sample(row)
        kept.append(token)
        if token != draft_token or target.is_end(token):
            return Verdict(tuple(kept))
        row += 1
    kept.append(target.sample(row))
    return Verdict(tuple(kept))
