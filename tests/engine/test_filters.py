"""What the filters leave of a row of logits is what the whole chain draws from."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from llama_cpp import llama_cpp as lib

from localspec.decoding.sampling import SamplingSettings
from localspec.errors import EngineError, SamplerError
from localspec.llama.filters import Candidates, Filters
from localspec.llama.sampler import Sampler
from localspec.llama.vocabulary import Vocabulary
from tests.engine.conftest import Tiny
from tests.support.engine import open_session

HISTORY = (5, 9, 9, 17, 5)


@pytest.fixture(scope="module")
def vocabulary(tiny: Tiny) -> Iterator[Vocabulary]:
    with open_session(tiny("llama")) as session:
        yield session._target.model.vocabulary


def logits_like(seed: int, n_vocab: int) -> npt.NDArray[np.float32]:
    return (3.0 * np.random.default_rng(seed).normal(size=n_vocab)).astype(np.float32)


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(seed=1),
        SamplingSettings(seed=1, temp=1.3, top_k=0, top_p=1.0, min_p=0.0),
        SamplingSettings(seed=1, top_k=0, top_p=0.9, min_p=0.0),
        SamplingSettings(seed=1, typical_p=0.7, top_k=0),
        SamplingSettings(seed=1, repeat_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.3),
        SamplingSettings(seed=1, dry_multiplier=2.0, dry_allowed_length=1),
        SamplingSettings(seed=1, logit_bias=((3, 9.0), (4, float("-inf")))),
    ],
)
def test_it_is_what_the_last_link_draws_from(
    vocabulary: Vocabulary, settings: SamplingSettings
) -> None:
    n_vocab = vocabulary.n_tokens
    sampler = Sampler(vocabulary, settings, 512)
    sampler.accept_prompt(HISTORY)
    filters = Filters(vocabulary, settings, 512, seed=1)
    for token in HISTORY:
        filters.accept(token)
    for seed in range(3):
        logits = logits_like(seed, n_vocab)
        whole = Candidates(n_vocab)
        array = whole.of(logits)
        lib.llama_sampler_apply(sampler._chain, ctypes.byref(array))
        drawn_from = whole.data[: array.size]
        expected = dict(zip(drawn_from["id"].tolist(), drawn_from["p"].tolist(), strict=True))
        law = filters.distribution(logits)
        assert law.probabilities.sum() == pytest.approx(1.0)
        for token in range(n_vocab):
            assert law.probability_of(token) == pytest.approx(expected.get(token, 0.0), abs=1e-6)
    filters.close()
    sampler.close()


def test_a_branch_looks_back_on_its_own_tokens_too_and_leaves_the_rest_alone(
    vocabulary: Vocabulary,
) -> None:
    settings = SamplingSettings(repeat_penalty=2.0, top_k=0, top_p=1.0, min_p=0.0)
    logits = np.ones(vocabulary.n_tokens, np.float32)
    filters = Filters(vocabulary, settings, 512, seed=1)
    filters.accept(7)
    branch = filters.branch()
    branch.accept(8)
    both, one = branch.distribution(logits), filters.distribution(logits)
    branch.close()
    assert both.probability_of(7) == both.probability_of(8) < both.probability_of(9)
    assert one.probability_of(7) < one.probability_of(8) == one.probability_of(9)
    assert filters.distribution(logits).probability_of(7) == one.probability_of(7)
    filters.forget()
    assert filters.distribution(logits).probability_of(7) == pytest.approx(1 / len(logits))
    filters.close()


def test_logits_that_are_no_numbers_are_an_error_and_not_a_token(vocabulary: Vocabulary) -> None:
    filters = Filters(vocabulary, SamplingSettings(), 512, seed=1)
    logits = logits_like(0, vocabulary.n_tokens)
    logits[5] = np.nan
    with pytest.raises(EngineError, match="not numbers"):
        filters.distribution(logits)
    logits[:] = -np.inf
    with pytest.raises(SamplerError, match="forbid"):
        filters.distribution(logits)
    filters.close()


def test_tokens_beyond_a_limit_are_left_out_before_anything_is_filtered(
    vocabulary: Vocabulary,
) -> None:
    logits = logits_like(0, vocabulary.n_tokens)
    logits[300:] += 50.0
    filters = Filters(vocabulary, SamplingSettings(top_k=5), 512, seed=1, n_tokens=300)
    law = filters.distribution(logits)
    best = np.argsort(-logits[:300])[:5]
    assert set(law.ids.tolist()) <= set(best.tolist())
    assert law.probabilities.sum() == pytest.approx(1.0)
    filters.close()
