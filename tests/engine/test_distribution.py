"""Speculation keeps the target's distribution: frequencies over many seeds against its softmax."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from localspec.decoding.distribution import Distribution, overlap
from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.policies import FixedPolicy
from localspec.decoding.protocols import Draft, Round
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.sequence import TargetSequence
from localspec.engine.session import Session
from localspec.events import TextDelta
from localspec.llama.batch import Outputs
from localspec.llama.context import Context
from localspec.llama.sampler import Sampler
from tests.engine.conftest import Tiny
from tests.support.drafters import ScriptedDrafter
from tests.support.engine import answer, open_session, tokens_of
from tests.support.tiny_gguf import write_tiny

Outcome = TypeVar("Outcome", bound=Hashable)

SEEDS = 3000
DRAWN_SEEDS = 2000
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


@dataclass(frozen=True, slots=True)
class Case:
    """A draft model's drafts, and how they are stopped."""

    settings: SamplingSettings
    p_min: float = 0.0
    guessed: bool = False
    """Whether a sure token, right half of the time, stands before the drawn ones."""


@pytest.mark.parametrize(
    "case",
    [
        Case(SamplingSettings(temp=1.0, top_k=12, top_p=1.0, min_p=0.0)),
        Case(SamplingSettings(temp=0.7, top_k=20, top_p=0.8, min_p=0.0)),
        Case(SamplingSettings(temp=1.0, top_k=0, top_p=0.9, min_p=0.0), p_min=0.5),
        Case(SamplingSettings(temp=0.7, top_k=0, top_p=1.0, min_p=0.02), guessed=True),
        Case(SamplingSettings(temp=1.0, top_k=12, top_p=0.9, min_p=0.0), p_min=0.5, guessed=True),
    ],
    ids=["t1-k12", "t0.7-k20-p0.8", "t1-p0.9-p_min", "t0.7-guessed", "t1-k12-p0.9-guessed-p_min"],
)
def test_tokens_behind_drawn_drafts_follow_the_targets_softmax(tiny: Tiny, case: Case) -> None:
    with _pair(tiny("llama", seed=1), tiny("llama", seed=1, noise=0.1)) as session:
        prompt = tokens_of(session, PROMPT)
        first_law, pair_law = _laws(session, prompt, case.settings)
        best = max(first_law, key=first_law.__getitem__)
        first, pairs = Counter[int](), Counter[tuple[int, int]]()
        lengths = Counter[int]()
        accepted = 0
        for seed in range(DRAWN_SEEDS):
            rounds = _rounds(session, prompt, case, seed, best, n_tokens=2)
            kept = [token for outcome in rounds for token in outcome.tokens]
            first[kept[0]] += 1
            pairs[kept[0], kept[1]] += 1
            lengths.update(outcome.drafted for outcome in rounds)
            accepted += rounds[0].accepted
    assert _fits(first, first_law)
    assert _fits(pairs, pair_law)
    assert accepted > DRAWN_SEEDS / 5
    # Where p_min is active it stops some drafts and not others.
    assert (len(lengths) > 1) == (case.p_min > 0.0)


@pytest.mark.parametrize("temp", [0.7, 1.0])
def test_drawn_tokens_are_kept_as_often_as_the_distributions_overlap(
    tiny: Tiny, temp: float
) -> None:
    """Also: more often than sample-and-match would keep the draft's likeliest tokens there."""
    settings = SamplingSettings(temp=temp, top_k=40, top_p=0.95, min_p=0.0)
    with _pair(tiny("llama", seed=1), tiny("llama", seed=1, noise=0.05)) as session:
        prompt = tokens_of(session, PROMPT)
        noted: list[tuple[float, float, bool]] = []
        for seed in range(90):
            _rounds(session, prompt, Case(settings), seed, 0, n_tokens=24, noted=noted)
    overlaps, matches, kept = (np.array(column) for column in zip(*noted, strict=True))
    spread = math.sqrt(float((overlaps * (1 - overlaps)).sum()))
    assert len(noted) > 800
    assert abs(kept.sum() - overlaps.sum()) < 4 * spread
    assert kept.sum() - matches.sum() > 4 * spread


@pytest.mark.parametrize("n_vocab", [310, 420])
def test_ids_that_only_one_vocabulary_has_are_never_drawn(
    tiny: Tiny, tmp_path: Path, n_vocab: int
) -> None:
    """Padding of a draft's vocabulary is left out before the draw, not rejected after it."""
    draft = write_tiny(tmp_path / "draft.gguf", "llama", seed=3, n_vocab=n_vocab)
    settings = SamplingSettings(temp=3.0, top_k=0, top_p=1.0, min_p=0.0)
    with _pair(tiny("llama", seed=1), draft) as session:
        prompt = tokens_of(session, PROMPT)
        first_law, _ = _laws(session, prompt, settings, pairs=False)
        first = Counter[int]()
        for seed in range(1000):
            outcome = _rounds(session, prompt, Case(settings), seed, 0, n_tokens=1)[0]
            first[outcome.tokens[0]] += 1
            for proposal in outcome.draft.proposals:
                assert proposal is not None
                assert proposal.ids.max() < min(n_vocab, 320)
                assert proposal.probabilities.sum() == pytest.approx(1.0)
    assert _fits(first, first_law)


def test_a_token_the_draft_does_not_know_is_no_end_of_drafting(tiny: Tiny, tmp_path: Path) -> None:
    draft = write_tiny(tmp_path / "draft.gguf", "llama", seed=1, n_vocab=300)
    bias = SamplingSettings(temp=0.8, seed=1, logit_bias=((315, 8.0),))
    with _pair(tiny("llama", seed=1), draft) as session:
        found = answer(session, PROMPT, "model", sampling=bias, max_tokens=40, ignore_end=True)
    assert 315 in found.tokens
    assert found.speculation.accepted > 0


def test_the_chances_of_drawn_tokens_are_told_as_those_of_any_other(tiny: Tiny) -> None:
    sampling = SamplingSettings(temp=0.9, seed=3)
    events: list[Any] = []
    with _pair(tiny("llama", seed=1), tiny("llama", seed=1, noise=0.3)) as session:
        found = answer(
            session,
            PROMPT,
            "model",
            sampling=sampling,
            max_tokens=40,
            ignore_end=True,
            top_logprobs=2,
            events=events,
        )
        told = [chance for e in events if isinstance(e, TextDelta) for chance in e.chances]
        assert [chance.token for chance in told] == list(found.tokens)
        assert 0 < found.speculation.accepted < found.speculation.drafted
        context = session._target.context
        prompt = tokens_of(session, PROMPT)
        context.clear()
        context.evaluate(prompt, Outputs.LAST)
        for chance in told:
            expected = np.log(_softmax(context.logits[0].astype(np.float64)))
            assert chance.logprob == pytest.approx(expected[chance.token], abs=1e-3)
            context.evaluate([chance.token], Outputs.LAST)


def test_the_chi_square_notices_a_wrong_law() -> None:
    """The test above can fail: a law that is off by a tenth is refused."""
    random = np.random.default_rng(0)
    law = {0: 0.5, 1: 0.3, 2: 0.2}
    draws = Counter(random.choice(3, size=SEEDS, p=[0.55, 0.25, 0.2]).tolist())
    assert not _fits(draws, law)
    honest = Counter(random.choice(3, size=SEEDS, p=list(law.values())).tolist())
    assert _fits(honest, law)


class Guessing:
    """A sure token, and behind it what a draft model draws."""

    def __init__(self, drafter: ModelDrafter, sure: tuple[int, ...]) -> None:
        self._drafter = drafter
        self._sure = sure

    def begin(self, tokens: Sequence[int]) -> None:
        self._drafter.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        sure = Draft(self._sure[:max_tokens], "ngram", match_length=2)
        left = max_tokens - len(sure)
        return sure.followed_by(self._drafter.propose(left, after=sure.tokens))

    def observe(self, outcome: Round) -> None:
        self._drafter.observe(outcome.tokens, outcome.accepted)


class Noting(TargetSequence):
    """Notes of each drawn token how likely it was to be kept, by either rule, and if it was."""

    def __init__(
        self, context: Context, sampler: Sampler, noted: list[tuple[float, float, bool]]
    ) -> None:
        super().__init__(context, sampler)
        self._noted = noted

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        law = self._sampler.distribution(self._context, row)
        likeliest = int(proposal.ids[proposal.probabilities.argmax()])
        kept = super().judge(row, token, proposal)
        entry = (overlap(law, proposal), law.probability_of(likeliest), kept == token)
        self._noted.append(entry)
        return kept


@contextmanager
def _pair(target: Path, draft: Path) -> Iterator[Session]:
    with open_session(target, draft, method="model", p_min=0.0, draft_max=4) as session:
        yield session


def _rounds(
    session: Session,
    prompt: list[int],
    case: Case,
    seed: int,
    best: int,
    *,
    n_tokens: int,
    noted: list[tuple[float, float, bool]] | None = None,
) -> list[Round]:
    """Rounds of one answer until it has `n_tokens`, with drafts of up to three tokens."""
    context = session._target.context
    settings = replace(case.settings, seed=seed)
    if context.keep_prefix(prompt[:-1]) < len(prompt) - 1:
        context.evaluate(prompt[context.n_tokens() : -1], Outputs.NONE)
    drafter = session._drafting._drafter_model(0)
    drafter.p_min = case.p_min
    drafter.sample_as(settings)
    sampler = Sampler(session._target.model.vocabulary, settings, context.n_ctx)
    target = Noting(context, sampler, [] if noted is None else noted)
    target.ends_answers = False
    sure = (best,) if seed % 2 else (best + 1,)
    policy = Guessing(drafter, sure if case.guessed else ())
    loop = SpeculativeLoop(target, policy)
    loop.start(prompt)
    rounds: list[Round] = []
    while sum(len(outcome.tokens) for outcome in rounds) < n_tokens:
        rounds.append(loop.step(4))
    sampler.close()
    return rounds


def _laws(
    session: Session, prompt: list[int], settings: SamplingSettings, *, pairs: bool = True
) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
    """The target's probabilities of the first token, and of the first two."""
    context = session._target.context
    context.clear()
    context.evaluate(prompt, Outputs.LAST)
    first_law = _law(context.logits[0], settings)
    pair_law: dict[tuple[int, int], float] = {}
    for token, probability in first_law.items() if pairs else ():
        context.keep_prefix(prompt)
        context.evaluate([token], Outputs.LAST)
        for other, share in _law(context.logits[0], settings).items():
            pair_law[token, other] = probability * share
    return first_law, pair_law


def _seeded(settings: SamplingSettings, seed: int) -> SamplingSettings:
    return replace(settings, seed=seed)


def _law(logits: npt.NDArray[np.float32], settings: SamplingSettings) -> dict[int, float]:
    """Probabilities by token, by the definitions of top-k, top-p, min-p and temperature."""
    order = np.argsort(-logits, kind="stable")
    if settings.top_k:
        order = order[: settings.top_k]
    probabilities = _softmax(logits[order].astype(np.float64))
    if settings.top_p < 1:
        count = int(np.searchsorted(np.cumsum(probabilities), settings.top_p)) + 1
        order = order[:count]
    order = order[logits[order] >= logits[order[0]] + math.log(max(settings.min_p, 1e-30))]
    probabilities = _softmax(logits[order].astype(np.float64) / settings.temp)
    return {int(token): float(p) for token, p in zip(order, probabilities, strict=True)}


def _softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    exponentials = np.exp(values - values.max())
    result: npt.NDArray[np.float64] = exponentials / exponentials.sum()
    return result


def _fits(counts: Mapping[Outcome, int], law: Mapping[Outcome, float]) -> bool:
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
