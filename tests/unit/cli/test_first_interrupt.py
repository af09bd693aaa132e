"""The first signal stops what is under way; the next one does what it did before."""

from __future__ import annotations

import os
import signal

import pytest

from localspec.cli.run_engine import on_first_interrupt

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals cannot be sent there")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_named_signals_call_the_action_once_and_are_given_back(name: str) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    calls: list[str] = []
    earlier: list[int] = []
    signal.signal(number, lambda got, frame: earlier.append(got))
    try:
        with on_first_interrupt(lambda: calls.append(name), also=("SIGTERM", "SIGHUP")):
            os.kill(os.getpid(), number)
            assert calls == [name]
            os.kill(os.getpid(), number)
        assert (calls, earlier) == ([name], [number])
        os.kill(os.getpid(), number)
        assert earlier == [number, number]
    finally:
        signal.signal(number, before)


def test_a_signal_that_was_not_named_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with on_first_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is before
