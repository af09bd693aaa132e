"""One server on a tiny model for all tests that only ask; others start their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving import RunningServer, serving
from tests.support.tiny_gguf import write_tiny


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 4096 tokens of context."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    return write_tiny(path, "llama", n_ctx_train=4096)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[RunningServer]:
    home = tmp_path_factory.mktemp("home")
    with serving(home, tiny_model, "--threads", "1", "--ctx", "4096") as running:
        yield running
