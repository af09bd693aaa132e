"""What the native library says about itself, for callers that run it in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.llama.capabilities import Capabilities


def inspect_library() -> Capabilities:
    """Start llama.cpp here and ask it. Raises EngineError for a library that is not known."""
    # Loading the library at all is what may go wrong, so it happens no earlier than here.
    from localspec.llama import library
    from localspec.llama.capabilities import capabilities

    library.start()
    return capabilities()
