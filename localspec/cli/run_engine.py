"""Starting the engine with its progress on the output, and Ctrl-C that stops only an answer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from localspec.cli.output import Output
from localspec.cli.transcript import AnswerPrinter
from localspec.engine.settings import EngineSettings, GenerateRequest
from localspec.errors import EngineError
from localspec.events import Answer, LoadProgress, Notice, PromptProgress, TextDelta

if TYPE_CHECKING:
    from localspec.engine.client import EngineClient
    from localspec.paths import Paths

_LONG_PROMPT = 1024
"""Tokens from which reading the prompt deserves a progress bar."""


async def start_engine(settings: EngineSettings, output: Output) -> EngineClient:
    """Load the models, telling how far it is. Raises what `EngineClient.start` raises."""
    from localspec.engine.client import EngineClient

    def on_event(event: LoadProgress | Notice) -> None:
        if isinstance(event, LoadProgress) and event.fraction >= 1.0:
            # Memory is laid out and speeds are measured; nobody can say how long that takes.
            output.status("getting ready", force=True)
        elif isinstance(event, LoadProgress):
            output.progress(f"loading the {event.role}", event.fraction)
        else:
            output.warn(event.message, event.hint)

    try:
        return await EngineClient.start(settings, on_event)
    finally:
        output.clear_status()


def fitting_settings(
    settings: EngineSettings, paths: Paths, output: Output, *, force: bool
) -> EngineSettings:
    """`settings` that go into this machine's memory, telling what was changed for it.

    Raises DoesNotFit, unless `force`; BadModelFile.
    """
    from localspec.engine.guard import settings_that_fit, this_machine_quickly
    from localspec.memory.calibration import Calibration

    machine = this_machine_quickly(Calibration(paths.calibration))
    guarded = settings_that_fit(settings, machine, force=force)
    for notice in guarded.notices:
        output.warn(notice.message, notice.hint)
    return guarded.settings


def warn_about_build(output: Output) -> None:
    """Tell that a graphics card lies idle, if one does. Costs nothing where the build uses one."""
    from localspec.llama.advice import advise, detect_machine, installed_backends

    if installed_backends():
        return
    advice = advise(detect_machine())
    if advice is not None:
        output.warn(advice.problem, "localspec doctor shows what mends it")


async def print_answer(
    engine: EngineClient, request: GenerateRequest, output: Output, *, color_drafts: bool = False
) -> Answer:
    """Stream one answer to the output; Ctrl-C ends it early with what there is.

    Raises what the engine raises. A second Ctrl-C ends the program.
    """
    printer = AnswerPrinter(output, color_drafts=color_drafts)
    answer: Answer | None = None
    with stopping(engine):
        async for event in engine.generate(request):
            if isinstance(event, TextDelta):
                printer.show(event)
            elif isinstance(event, PromptProgress):
                if event.total - event.cached >= _LONG_PROMPT:
                    output.progress("reading the prompt", event.done / event.total)
            elif isinstance(event, Notice):
                output.warn(event.message, event.hint)
            elif isinstance(event, Answer):
                answer = event
    output.clear_status()
    printer.finish()
    if answer is None:
        raise EngineError("the engine ended without an answer")
    return answer


@contextmanager
def stopping(engine: EngineClient) -> Iterator[None]:
    """Within it the first Ctrl-C cancels the answer; the second interrupts as usual."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []

    def cancel() -> None:
        tasks.append(loop.create_task(engine.cancel()))

    with on_first_interrupt(lambda: loop.call_soon_threadsafe(cancel)):
        yield


@contextmanager
def on_first_interrupt(action: Callable[[], object], *, also: Sequence[str] = ()) -> Iterator[None]:
    """Within it the first Ctrl-C calls `action` and the second does what it did before.

    also: names of further signals that count as Ctrl-C; those that the system lacks do not.
    Outside of the main thread, where signals cannot be handled, nothing changes.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", *also) if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        action()

    try:
        for number in numbers:
            signal.signal(number, handle)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        restore()
