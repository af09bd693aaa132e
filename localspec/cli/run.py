"""`localspec run`: one answer, or a chat."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from localspec.cli import options
from localspec.cli.engine_options import ChatEngineOptions, settings_for
from localspec.cli.output import Output
from localspec.cli.sampling_options import (
    RunSamplingOptions,
    sampling_settings,
    stop_strings,
)
from localspec.engine.settings import EngineSettings, GenerateRequest
from localspec.errors import Interrupted, UsageError


def command(
    output: Output,
    model: options.Model,
    engine: ChatEngineOptions,
    sampling: RunSamplingOptions,
    prompt: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT",
            help="The question. None: a chat, or standard input where it is piped.",
            show_default=False,
        ),
    ] = None,
    color_drafts: Annotated[
        bool,
        typer.Option(
            "--color-drafts",
            help="Show accepted draft tokens in another colour.",
            rich_help_panel=options.SPECULATION,
        ),
    ] = False,
    max_tokens: options.MaxTokens = None,
    system: options.System = None,
    stop: options.Stop = None,
    raw: options.Raw = False,
    stats: Annotated[
        bool | None,
        typer.Option(
            "--stats/--no-stats",
            help="Speed and acceptance after each answer; default: on a terminal.",
            rich_help_panel=options.ANSWER,
        ),
    ] = None,
) -> int | None:
    """Answer a prompt, or chat, with speculative decoding.

    The text is the target model's own, whatever drafts for it. With a PROMPT it answers once; what
    is piped in is appended to it. Without one it opens a chat, in which /help shows the commands.
    """
    from localspec.cli.run_engine import fitting_settings, warn_about_build
    from localspec.engine.settings import ChatMessage
    from localspec.paths import user_paths

    request = GenerateRequest(
        sampling=sampling_settings(sampling),
        max_tokens=max_tokens,
        stop=stop_strings(stop or ()),
    )
    if max_tokens is not None and max_tokens < 0:
        raise UsageError(
            f"--max-tokens {max_tokens} is negative", hint="leave it out, and the model decides"
        )
    question = _question(prompt, output)
    if question is None and (output.json or raw):
        raise UsageError(
            f"{'--json' if output.json else '--raw'} needs a prompt",
            hint="give one after MODEL, or pipe it in",
        )
    paths = user_paths()
    settings = settings_for(model, engine, output, paths)
    settings = fitting_settings(settings, paths, output, force=engine.force)
    warn_about_build(output)
    show_stats = output.is_terminal if stats is None else stats
    if question is None:
        from localspec.cli.chat_loop import run_chat

        return asyncio.run(
            run_chat(
                settings,
                request,
                output,
                paths,
                system=system,
                stats=show_stats,
                color_drafts=color_drafts,
            )
        )
    from dataclasses import replace

    if raw:
        request = replace(request, prompt=question)
    else:
        messages = [ChatMessage("system", system)] if system else []
        request = replace(request, messages=(*messages, ChatMessage("user", question)))
    return asyncio.run(_answer_once(settings, request, output, show_stats, color_drafts))


async def _answer_once(
    settings: EngineSettings,
    request: GenerateRequest,
    output: Output,
    stats: bool,
    color_drafts: bool,
) -> int:
    from localspec.cli.run_answer import answer_document, stats_line
    from localspec.cli.run_engine import print_answer, start_engine

    engine = await start_engine(settings, output)
    try:
        answer = await print_answer(engine, request, output, color_drafts=color_drafts)
    finally:
        await engine.close()
    output.document(answer_document(answer))
    if stats and not output.json:
        output.note(output.style(stats_line(answer), "dim", error=True))
    return Interrupted.exit_code if answer.finish_reason == "cancelled" else 0


def _question(prompt: list[str] | None, output: Output) -> str | None:
    """The prompt from the arguments and from what is piped in; None for a chat.

    Raises UsageError when there is neither and nobody to chat with.
    """
    piped = output.read_stdin()
    parts = [" ".join(prompt or []), piped or ""]
    question = "\n\n".join(part for part in parts if part.strip())
    if question:
        return question
    if prompt is not None or piped is not None or not output.stdin_is_terminal:
        raise UsageError("the prompt is empty", hint='localspec run MODEL "Why is the sky blue?"')
    return None
