"""Every outcome of a random program, with its probability; and random models to decode with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np

from localspec.decoding.distribution import Dice, Distribution, keep_or_replace
from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError

Result = TypeVar("Result", bound=Hashable)


def all_outcomes(program: Callable[[Dice], Result]) -> dict[Result, float]:
    """Runs `program` once for each way its dice can fall; results with their probabilities.

    The program has to be deterministic but for the dice.
    """
    outcomes: dict[Result, float] = {}
    paths: list[tuple[int, ...]] = [()]
    while paths:
        dice = _ForcedDice(paths.pop())
        result = program(dice)
        outcomes[result] = outcomes.get(result, 0.0) + dice.probability
        paths.extend(dice.other_paths)
    return outcomes


class _ForcedDice:
    """Falls as `path` says, and on the first side from there on."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self._path = path
        self._taken: list[int] = []
        self.probability = 1.0
        self.other_paths: list[tuple[int, ...]] = []

    def happens(self, probability: float) -> bool:
        chance = min(max(probability, 0.0), 1.0)
        return bool(self._choose([(1, chance), (0, 1.0 - chance)]))

    def pick(self, distribution: Distribution) -> int:
        ids, probabilities = distribution.ids.tolist(), distribution.probabilities.tolist()
        return self._choose(list(zip(ids, probabilities, strict=True)))

    def _choose(self, sides: list[tuple[int, float]]) -> int:
        possible = [side for side in sides if side[1] > 0.0]
        at = len(self._taken)
        if at < len(self._path):
            side = self._path[at]
        else:
            side = 0
            taken = tuple(self._taken)
            self.other_paths.extend((*taken, other) for other in range(1, len(possible)))
        self._taken.append(side)
        value, probability = possible[side]
        self.probability *= probability
        return value


def law_after(
    context: Sequence[int], *, n_vocab: int, seed: int, sharpness: float = 1.0
) -> Distribution:
    """A distribution that depends on the last two tokens; some tokens have no probability."""
    tail = tuple(context[-2:])
    random = np.random.default_rng((seed, *tail))
    weights = random.exponential(size=n_vocab) ** sharpness
    weights[random.random(n_vocab) < 0.2] = 0.0
    if not weights.any():
        weights[0] = 1.0
    ids = np.flatnonzero(weights).astype(np.int32)
    # The order of a sampler chain's candidates is any.
    ids = random.permutation(ids)
    return Distribution(ids, weights[ids] / weights.sum())


class RandomTarget:
    """A `Target` that draws from `law_after`."""

    def __init__(
        self, dice: Dice, *, n_vocab: int = 3, seed: int = 1, ends: bool = False, n_ctx: int = 64
    ) -> None:
        self._dice = dice
        self._n_vocab = n_vocab
        self._seed = seed
        self._ends = ends
        self._n_ctx = n_ctx
        self.held: list[int] = []
        self._first = 0
        self.rows_asked: list[int] = []

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_tokens(self) -> int:
        return len(self.held)

    def mark(self) -> None:
        """Memory can be cut anywhere."""

    def evaluate(self, tokens: Sequence[int]) -> None:
        self._first = len(self.held)
        self.held.extend(tokens)

    def law(self, row: int) -> Distribution:
        self.rows_asked.append(row)
        context = self.held[: self._first + 1 + row]
        return law_after(context, n_vocab=self._n_vocab, seed=self._seed)

    def sample(self, row: int) -> int:
        return self._dice.pick(self.law(row))

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        return keep_or_replace(self.law(row), proposal, token, self._dice)

    def rollback(self, n_tokens: int) -> None:
        del self.held[n_tokens:]

    def is_end(self, token: int) -> bool:
        return self._ends and token == 0


class RandomDraft:
    """A `DraftModel` with a law of its own."""

    def __init__(
        self, dice: Dice, *, n_vocab: int = 3, seed: int = 4, sharpness: float = 2.0
    ) -> None:
        self._dice = dice
        self._n_vocab = n_vocab
        self._seed = seed
        self._sharpness = sharpness
        self.held: list[int] = []

    @property
    def n_ctx(self) -> int:
        return 64

    @property
    def n_tokens(self) -> int:
        return len(self.held)

    def mark(self) -> None:
        """Memory can be cut anywhere."""

    def evaluate(self, tokens: Sequence[int]) -> None:
        self.held.extend(tokens)

    def law(self) -> Distribution:
        return law_after(
            self.held, n_vocab=self._n_vocab, seed=self._seed, sharpness=self._sharpness
        )

    def best(self) -> tuple[int, float]:
        law = self.law()
        return int(law.ids[law.probabilities.argmax()]), law.highest

    def rollback(self, n_tokens: int) -> None:
        if n_tokens > len(self.held):
            raise EngineError("there is not that much to keep")
        del self.held[n_tokens:]

    def sampler(self, settings: SamplingSettings, n_vocab: int) -> RandomDraftSampler:
        return RandomDraftSampler(self, self._dice)


class RandomDraftSampler:
    """Draws from a RandomDraft's law."""

    def __init__(self, model: RandomDraft, dice: Dice) -> None:
        self._model = model
        self._dice = dice

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing looks back."""

    def observe(self, tokens: Sequence[int]) -> None:
        """Nothing looks back."""

    def start(self, after: Sequence[int]) -> None:
        """Nothing looks back."""

    def distribution(self) -> Distribution | None:
        return self._model.law()

    def draw(self, distribution: Distribution) -> int:
        return self._dice.pick(distribution)

    def close(self) -> None:
        """Holds nothing."""
