"""Fixtures of the terminal UI's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_backend import FakeBackend


@pytest.fixture
def backend(tmp_path: Path) -> FakeBackend:
    return FakeBackend(tmp_path)
