"""ggml is kept from matrix tiles, which crash quantised models in a common build."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.errors import EngineError
from localspec.llama import amx, library
from localspec.llama.capabilities import capabilities

pytestmark = pytest.mark.engine


@pytest.fixture
def fake_ggml(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A library built for tiles; what it lists, and how large a signal stack it found."""
    seen: dict[str, Any] = {"kinds": ("CPU_REPACK",), "stacks": []}

    def kinds(_find: Any) -> tuple[str, ...]:
        seen["stacks"].append(_stack_size())
        return tuple(seen["kinds"])

    monkeypatch.setattr(amx, "cpu_buffer_kinds", kinds)
    monkeypatch.setattr(sys, "platform", "linux")
    return seen


def _stack_size() -> int:
    stack = amx._SignalStack()
    assert ctypes.CDLL(None).sigaltstack(None, ctypes.byref(stack)) == 0
    return int(stack.size)


def _tiles(_name: str) -> Any:
    return lambda: 1


def test_the_library_in_use_lists_no_tiles() -> None:
    library.start()
    assert "AMX" not in amx.cpu_buffer_kinds(library.find_symbol)
    assert not any(name.startswith("AMX") for name in capabilities().cpu_features)


def test_a_library_without_the_functions_has_no_other_kinds() -> None:
    assert amx.cpu_buffer_kinds(lambda _name: None) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="the signal stack of Linux")
def test_ggml_looks_while_the_signal_stack_is_too_small_and_gets_the_old_one_back(
    fake_ggml: dict[str, Any],
) -> None:
    before = _stack_size()
    amx.keep_off(_tiles)
    assert fake_ggml["stacks"] == [2048]
    assert _stack_size() == before != 2048


@pytest.mark.skipif(sys.platform != "linux", reason="the signal stack of Linux")
def test_tiles_that_ggml_got_all_the_same_are_an_error_not_a_crash(
    fake_ggml: dict[str, Any],
) -> None:
    fake_ggml["kinds"] = ("AMX", "CPU_REPACK")
    with pytest.raises(EngineError, match="AMX") as raised:
        amx.keep_off(_tiles)
    assert "GGML_NATIVE=OFF" in raised.value.hint


@pytest.mark.parametrize(
    ("platform", "symbol"), [("darwin", _tiles), ("linux", lambda _name: None)], ids=["mac", "old"]
)
def test_elsewhere_nothing_is_looked_for(
    platform: str, symbol: Any, fake_ggml: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    amx.keep_off(symbol)
    assert fake_ggml["stacks"] == []


def test_a_fresh_process_says_nothing_of_it(tmp_path: Path) -> None:
    script = (
        "from localspec.llama import amx, library; library.start(); "
        "print('AMX' in amx.cpu_buffer_kinds(library.find_symbol))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
