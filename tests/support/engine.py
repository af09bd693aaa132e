"""Sessions of the engine in the test's own process: no child, the same code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from localspec.decoding.sampling import GREEDY, SamplingSettings
from localspec.engine.questions import TokensOf
from localspec.engine.session import Session
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.events import Answer
from localspec.llama import library
from localspec.llama.cancel import CancelFlag
from localspec.llama.log import NativeLog


@cache
def native_log() -> NativeLog:
    """The one log of this process; the library is started with it."""
    log = NativeLog()
    library.start()
    return log


@contextmanager
def open_session(
    target: Path,
    draft: Path | None = None,
    *,
    kv_type: str = "f32",
    emit: Any = None,
    **settings: Any,
) -> Iterator[Session]:
    """A loaded session with small defaults; closed at the end, whatever happens.

    KV cache in F32 and no flash attention: in F16, passes of different widths round apart by up to
    0.05 on random models, and two tokens so nearly tied tell nothing about the algorithm. In F32
    they agree within 0.0001, sliding windows within 0.005.

    One thread: two would wait for each other at every node of such small graphs.
    """
    options: dict[str, Any] = {
        "method": "none",
        "n_threads": 1,
        "n_ctx": 512,
        "flash_attn": "off",
        **settings,
    }
    session = Session(
        EngineSettings(
            target=ModelSettings(target, kv_type=kv_type),
            draft=ModelSettings(draft, kv_type=kv_type) if draft else None,
            **options,
        ),
        native_log(),
        CancelFlag(),
        emit or (lambda event: None),
    )
    try:
        yield session
    finally:
        session.close()


def tokens_of(session: Session, text: str) -> list[int]:
    """Token ids of plain text."""
    found: list[int] = session.ask(TokensOf(text, parse_special=False))
    return found


def answer(
    session: Session,
    prompt: str | tuple[int, ...],
    method: str = "none",
    *,
    sampling: SamplingSettings = GREEDY,
    max_tokens: int | None = 64,
    fresh: bool = True,
    events: list[Any] | None = None,
    **options: Any,
) -> Answer:
    """One answer to raw text or tokens."""
    given = {"prompt": prompt} if isinstance(prompt, str) else {"prompt_tokens": prompt}
    request = GenerateRequest(
        **given,
        sampling=sampling,
        max_tokens=max_tokens,
        method=method,
        fresh_caches=fresh,
        **options,
    )
    return session.generate(request, events.append if events is not None else lambda event: None)
