"""Speculation keeps the target's distribution: frequencies over many seeds against its softmax."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.policies import FixedPolicy
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.sequence import TargetSequence
from localspec.llama.batch import Outputs
from localspec.llama.sampler import Sampler
from tests.engine.conftest import Tiny
from tests.support.drafters import ScriptedDrafter
from tests.support.engine import open_session, tokens_of

SEEDS = 3000
PROMPT = "the cat and the hat and the cat and the "


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(temp=0.7, top_k=0, top_p=1.0, min_p=0.0),
        SamplingSettings(temp=1.0, top_k=12, top_p=1.0, min_p=0.0),
        SamplingSettings(temp=1.0, top_k=0, top_p=0.9, min_p=0.0),
        SamplingSettings(temp=0.7, top_k=20, top_p=0.8, min_p=0.0),
    ],
    ids=["t0.7", "t1.0-k12", "t1.0-p0.9", "t0.7-k20-p0.8"],
)
def test_tokens_behind_a_draft_follow_the_targets_softmax(
    tiny: Tiny, settings: SamplingSettings
) -> None:
    with open_session(tiny("llama", seed=1), draft_max=4) as session:
        context = session._target.context
        prompt = tokens_of(session, PROMPT)
        context.evaluate(prompt, Outputs.LAST)
        first_law = _law(context.logits[0], settings)
        # The draft is what a good drafter would say: the most probable token, twice.
        best = max(first_law, key=first_law.__getitem__)
        context.evaluate([best], Outputs.LAST)
        second_law = _law(context.logits[0], settings)
        after = max(second_law, key=second_law.__getitem__)

        first, second = Counter[int](), Counter[int]()
        for seed in range(SEEDS):
            context.keep_prefix(prompt[:-1])
            sampler = Sampler(
                session._target.model.vocabulary, _seeded(settings, seed), context.n_ctx
            )
            target = TargetSequence(context, sampler)
            target.ends_answers = False
            loop = SpeculativeLoop(target, FixedPolicy(ScriptedDrafter([best, after]), 2))
            loop.start(prompt)
            kept = loop.step(3).tokens
            sampler.close()
            first[kept[0]] += 1
            if kept[0] == best:
                second[kept[1]] += 1

    assert _fits(first, first_law)
    assert sum(second.values()) > SEEDS / 10
    assert _fits(second, second_law)


def test_the_chi_square_notices_a_wrong_law() -> None:
    """The test above can fail: a law that is off by a tenth is refused."""
    random = np.random.default_rng(0)
    law = {0: 0.5, 1: 0.3, 2: 0.2}
    draws = Counter(random.choice(3, size=SEEDS, p=[0.55, 0.25, 0.2]).tolist())
    assert not _fits(draws, law)
    honest = Counter(random.choice(3, size=SEEDS, p=list(law.values())).tolist())
    assert _fits(honest, law)


def _seeded(settings: SamplingSettings, seed: int) -> SamplingSettings:
    return SamplingSettings(
        temp=settings.temp,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        seed=seed,
    )


def _law(logits: npt.NDArray[np.float32], settings: SamplingSettings) -> dict[int, float]:
    """Probabilities by token, by the definitions of top-k, top-p and temperature."""
    order = np.argsort(-logits, kind="stable")
    if settings.top_k:
        order = order[: settings.top_k]
    probabilities = _softmax(logits[order].astype(np.float64))
    if settings.top_p < 1:
        count = int(np.searchsorted(np.cumsum(probabilities), settings.top_p)) + 1
        order = order[:count]
    probabilities = _softmax(logits[order].astype(np.float64) / settings.temp)
    return {int(token): float(p) for token, p in zip(order, probabilities, strict=True)}


def _softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    exponentials = np.exp(values - values.max())
    result: npt.NDArray[np.float64] = exponentials / exponentials.sum()
    return result


def _fits(counts: Mapping[int, int], law: Mapping[int, float]) -> bool:
    """Pearson's chi-square at the level 0.001; cells under five expected draws are pooled."""
    total = sum(counts.values())
    assert set(counts) <= set(law), "a token was drawn that the law forbids"
    cells: list[tuple[float, float]] = []
    rest_seen = rest_expected = 0.0
    for token, probability in law.items():
        seen, expected = counts.get(token, 0), probability * total
        if expected < 5:
            rest_seen, rest_expected = rest_seen + seen, rest_expected + expected
        else:
            cells.append((seen, expected))
    if rest_expected > 0:
        cells.append((rest_seen, rest_expected))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    freedom = max(1, len(cells) - 1)
    # Wilson and Hilferty's approximation of the quantile; 3.09 is the normal one at 0.001.
    spread = 2 / (9 * freedom)
    critical = freedom * (1 - spread + 3.09 * math.sqrt(spread)) ** 3
    return statistic < critical
