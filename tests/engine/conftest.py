"""Tiny models of every kind of memory, written once per run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tiny_gguf import write_tiny

Tiny = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """`tiny(family, seed=, noise=)`: path of a tiny F32 model, made when first asked for."""
    folder = tmp_path_factory.mktemp("tiny")

    def make(family: str, *, seed: int = 0, noise: float = 0.0) -> Path:
        path = folder / f"{family}-{seed}-{noise}.gguf"
        return path if path.exists() else write_tiny(path, family, seed=seed, noise=noise)

    return make
