"""Vectors of texts, from every kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from localspec.engine.embedding_session import EmbeddingSession
from localspec.engine.settings import EmbedRequest, EngineSettings, ModelSettings
from localspec.errors import Cancelled, PromptTooLong, UsageError
from localspec.llama.cancel import CancelFlag
from tests.engine.conftest import Tiny
from tests.support.engine import native_log
from tests.support.tiny_gguf import FAMILIES

pytestmark = pytest.mark.engine

TEXTS = ("the cat", "a rose is a rose is a rose", "in the beginning", "the hat")


@contextmanager
def opened(path: Path, cancel: CancelFlag | None = None, **more: Any) -> Iterator[EmbeddingSession]:
    settings = EngineSettings(
        target=ModelSettings(path, kv_type="f32"),
        embeddings=True,
        n_threads=1,
        n_ctx=512,
        flash_attn="off",
        **more,
    )
    log = native_log()
    session = EmbeddingSession(settings, log, cancel or CancelFlag(), lambda event: None)
    try:
        yield session
    finally:
        session.close()


def vectors(session: EmbeddingSession, *texts: str) -> npt.NDArray[np.float32]:
    found = session.embed(EmbedRequest(texts))
    return np.array([np.frombuffer(vector, np.float32) for vector in found.vectors])


@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_has_its_vector_whatever_is_beside_and_before_it(
    tiny: Tiny, family: str, pooling: str
) -> None:
    with opened(tiny(family), pooling=pooling) as session:
        together = vectors(session, *TEXTS)
        alone = np.concatenate([vectors(session, text) for text in reversed(TEXTS)])[::-1]
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert together == pytest.approx(alone, abs=5e-3)
    likeness = together @ together.T
    assert (likeness[np.triu_indices(len(TEXTS), 1)] < 0.9999).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_text_read_in_pieces_has_the_vector_of_one_pass(tiny: Tiny, family: str) -> None:
    text = "the cat and the hat; " * 12
    with opened(tiny(family), pooling="last") as session:
        whole = vectors(session, text)
    with opened(tiny(family), pooling="last", n_ubatch=64) as session:
        assert vectors(session, "before", text, "after")[1] == pytest.approx(whole[0], abs=5e-3)


def test_a_mean_needs_the_whole_text_in_one_pass(tiny: Tiny) -> None:
    with opened(tiny("llama"), pooling="mean", n_ubatch=64) as session:
        assert session.facts["n_ctx"] == 64
        with pytest.raises(PromptTooLong, match="at most 64 fit"):
            vectors(session, "x" * 65)


def test_a_cancelled_request_leaves_the_session_whole(tiny: Tiny) -> None:
    cancel = CancelFlag()
    with opened(tiny("llama"), cancel, pooling="last") as session:
        before = vectors(session, *TEXTS)
        cancel.set()
        with pytest.raises(Cancelled):
            vectors(session, *TEXTS)
        cancel.clear()
        assert vectors(session, *TEXTS) == pytest.approx(before, abs=1e-6)


def test_an_unknown_rule_of_pooling_is_refused(tiny: Tiny) -> None:
    with pytest.raises(UsageError, match="--pooling"), opened(tiny("llama"), pooling="rank"):
        pass
