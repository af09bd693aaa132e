"""Plan loads by llama.cpp itself, for callers that run it in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.memory.probe import ProbeLog, ProbeRequest


def probe_in_child(requests: Sequence[ProbeRequest]) -> list[ProbeLog]:
    """One child for all requests: most of a probe's time is the start of Python and llama.cpp.

    Raises EngineError, and EngineCrashed when llama.cpp ended the child.
    """
    from localspec.engine.child import run_in_child

    found: list[ProbeLog] = run_in_child(_probe_all, tuple(requests))
    return found


def _probe_all(requests: Sequence[ProbeRequest]) -> list[ProbeLog]:
    # The library is loaded in the child only.
    from localspec.llama.probe import run_probe

    return [run_probe(request) for request in requests]
