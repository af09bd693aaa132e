"""`localspec run`: one answer, or a chat."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from localspec.cli import options
from localspec.cli.output import Output
from localspec.engine.settings import EngineSettings, GenerateRequest
from localspec.errors import Interrupted, UsageError


def command(
    output: Output,
    model: options.Model,
    prompt: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT",
            help="The question. None: a chat, or standard input where it is piped.",
            show_default=False,
        ),
    ] = None,
    draft: options.Draft = "auto",
    draft_max: options.DraftMax = None,
    draft_min: options.DraftMin = 0,
    p_min: options.PMin = None,
    lookup_static: options.LookupStatic = None,
    lookup_dynamic: options.LookupDynamic = None,
    color_drafts: Annotated[
        bool,
        typer.Option(
            "--color-drafts",
            help="Show accepted draft tokens in another colour.",
            rich_help_panel=options.SPECULATION,
        ),
    ] = False,
    ctx: options.Ctx = "auto",
    kv_type: options.KvType = "f16",
    draft_kv_type: options.DraftKvType = "f16",
    gpu_layers: options.GpuLayers = "auto",
    draft_gpu_layers: options.DraftGpuLayers = "auto",
    threads: options.Threads = 0,
    batch: options.Batch = 2048,
    ubatch: options.Ubatch = 512,
    flash_attn: options.FlashAttn = "auto",
    context_shift: options.ContextShift = False,
    force: options.Force = False,
    temp: options.Temp = 0.8,
    top_k: options.TopK = 40,
    top_p: options.TopP = 0.95,
    min_p: options.MinP = 0.05,
    repeat_penalty: options.RepeatPenalty = 1.0,
    seed: options.Seed = None,
    grammar: options.Grammar = None,
    sampler: options.SamplerSettings = None,
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
    from localspec.cli.run_models import prepare_models
    from localspec.cli.run_settings import (
        LoadOptions,
        engine_settings,
        parse_draft,
        sampling_settings,
        stop_strings,
    )
    from localspec.engine.settings import ChatMessage
    from localspec.paths import user_paths

    choice = parse_draft(draft)
    load = LoadOptions(
        draft_max=draft_max,
        draft_min=draft_min,
        p_min=p_min,
        lookup_static=lookup_static,
        lookup_dynamic=lookup_dynamic,
        ctx=ctx,
        kv_type=kv_type,
        draft_kv_type=draft_kv_type,
        gpu_layers=gpu_layers,
        draft_gpu_layers=draft_gpu_layers,
        threads=threads,
        batch=batch,
        ubatch=ubatch,
        flash_attn=flash_attn,
        context_shift=context_shift,
    )
    request = GenerateRequest(
        sampling=sampling_settings(
            temp=temp,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_penalty=repeat_penalty,
            seed=seed,
            grammar=grammar,
            others=sampler or (),
        ),
        max_tokens=max_tokens,
        stop=stop_strings(stop or ()),
    )
    question = _question(prompt, output)
    if question is None and (output.json or raw):
        raise UsageError(
            f"{'--json' if output.json else '--raw'} needs a prompt",
            hint="give one after MODEL, or pipe it in",
        )
    paths = user_paths()
    models = prepare_models(model, choice, output, paths)
    settings = engine_settings(
        models.id,
        models.target,
        models.draft,
        choice.method,
        load,
        paths,
        pair_draft_max=models.draft_max,
        pair_p_min=models.p_min,
    )
    settings = fitting_settings(settings, paths, output, force=force)
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
