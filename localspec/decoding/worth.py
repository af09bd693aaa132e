"""What a round is worth: expected tokens less what its time could have yielded elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul


@dataclass(frozen=True, slots=True)
class Choice:
    """A draft length and what is expected of it."""

    length: int
    """Draft tokens; 0 is plain decoding."""
    tokens: float
    """Tokens that the round is expected to yield, bonus token included."""
    worth: float
    """Tokens beyond what its time would have yielded at the present rate, less the risk."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which drafts are weighed in one round."""

    table: Sequence[float]
    """Entry n is C(n) in seconds."""
    rate: float
    """Tokens per second that other rounds yield."""
    fear: float
    """Worth that each squared token of a possible loss takes away: the less there is to lose, the
    surer a gain has to be. With 1 / (2 W) it is to second order what Kelly's rule deducts for the
    losses of somebody who holds W tokens."""

    @property
    def plain(self) -> float:
        """Worth of plain decoding; 0.0 where nothing has been faster."""
        return 1.0 - self.rate * self.table[1]

    def best_length(self, chances: Sequence[float]) -> Choice:
        """The best prefix of a draft that is already there.

        chances: of each token, that it is accepted when those before it are.
        """
        table, rate, plain = self.table, self.rate, self.plain
        best_length, best_tokens, best = 0, 1.0, plain
        accepted = 0.0
        reached = [1.0]
        for length, chance in enumerate(chances, 1):
            reached.append(reached[-1] * chance)
            accepted += reached[-1]
            price = rate * (table[length + 1] - table[1])
            worth = plain + accepted - price
            if worth > best:
                worth -= self.fear * squared_loss(reached, price)
                if worth > best:
                    best_length, best_tokens, best = length, 1.0 + accepted, worth
        return Choice(best_length, best_tokens, best)

    def best_request(
        self,
        forecast: Sequence[tuple[float, float]],
        token_s: float,
        catch_up_s: float,
        before: Sequence[float] = (),
    ) -> Choice:
        """How many tokens to ask of a drafter whose tokens cost `token_s` each.

        forecast: for each position the probability that a token is proposed there, and that it is
        proposed and accepted. catch_up_s: what it takes before the first token, beyond token_s.
        before: chances of the tokens of another draft that it is to go on behind; the length does
        not count them.
        """
        table, rate, plain = self.table, self.rate, self.plain
        best = Choice(0, 1.0, plain)
        reached = [1.0, *accumulate(before, mul)]
        n_before, reached_before = len(before), reached[-1]
        accepted = sum(reached) - 1.0
        # One pass of the draft is spent also when it proposes nothing.
        seconds = table[1 + n_before] - table[1] + catch_up_s + token_s
        goes_on = 1.0
        for length, (proposed, kept) in enumerate(forecast, n_before + 1):
            reached.append(reached_before * kept)
            accepted += reached[-1]
            seconds += proposed * (table[length + 1] - table[length])
            if length > n_before + 1:
                seconds += goes_on * token_s
            goes_on = proposed
            price = rate * seconds
            worth = plain + accepted - price
            if worth > best.worth:
                worth -= self.fear * squared_loss(reached, price)
                if worth > best.worth:
                    best = Choice(length - n_before, 1.0 + accepted, worth)
        return best


def squared_loss(reached: Sequence[float], price: float) -> float:
    """The expected square of what is lost when `price` tokens are paid for a draft.

    reached: entry n is the probability that at least n of its tokens are accepted.
    """
    last = len(reached) - 1
    expected = 0.0
    for accepted, at_least in enumerate(reached):
        loss = price - accepted
        if loss <= 0.0:
            break
        exactly = at_least - (reached[accepted + 1] if accepted < last else 0.0)
        expected += exactly * loss * loss
    return expected
