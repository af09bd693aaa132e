"""`localspec serve`: an OpenAI-compatible server with speculation built in."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli.engine_options import ChatEngineOptions, EngineOptions, settings_for
from localspec.cli.output import Output
from localspec.cli.sampling_options import SamplingOptions, sampling_settings
from localspec.engine.bounds import check_settings
from localspec.errors import BadModelFile, LocalspecError, UsageError
from localspec.events import LoadProgress, Notice

if TYPE_CHECKING:
    from localspec.engine.client import EngineClient
    from localspec.engine.settings import EngineSettings
    from localspec.paths import Paths
    from localspec.server.settings import ServedModel

SERVER = "Server"
ACCESS = "Access"

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="What to serve: names from `localspec list`, .gguf files, or owner/repo[:file].",
        show_default=False,
    ),
]
Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=SERVER)
]
Port = Annotated[int, typer.Option(metavar="N", help="0 takes a free one.", rich_help_panel=SERVER)]
Slots = Annotated[
    int,
    typer.Option(metavar="N", help="Answers decoded at a time.", rich_help_panel=SERVER),
]
IdleUnload = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Unload a model that was not used for so long, such as 10m.",
        rich_help_panel=SERVER,
    ),
]
MaxWaiting = Annotated[
    int,
    typer.Option(metavar="N", help="Requests that may wait for a slot.", rich_help_panel=SERVER),
]
MaxBody = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Largest body of a request.", rich_help_panel=SERVER),
]
LogPrompts = Annotated[
    bool,
    typer.Option("--log-prompts", help="Write prompts into the log.", rich_help_panel=SERVER),
]
Embeddings = Annotated[
    bool,
    typer.Option(
        "--embeddings",
        help="Answer /v1/embeddings instead of generating; models made for it always do.",
        rich_help_panel=SERVER,
    ),
]
Pooling = Annotated[
    str,
    typer.Option(
        metavar="TYPE",
        help="How the vectors of a text's tokens become one: mean, cls, last, or as the file says.",
        rich_help_panel=SERVER,
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="API keys, one a line; LOCALSPEC_API_KEY holds one as well.",
        rich_help_panel=ACCESS,
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Another name by which clients call this server; repeatable.",
        rich_help_panel=ACCESS,
        show_default=False,
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="A web page that may use the server, such as https://app.example; repeatable.",
        rich_help_panel=ACCESS,
        show_default=False,
    ),
]


def command(
    output: Output,
    models: Models,
    engine: ChatEngineOptions,
    sampling: SamplingOptions,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    slots: Slots = 1,
    idle_unload: IdleUnload = None,
    max_waiting: MaxWaiting = 256,
    max_body: MaxBody = "8MiB",
    log_prompts: LogPrompts = False,
    embeddings: Embeddings = False,
    pooling: Pooling = "auto",
    api_key_file: ApiKeyFile = None,
    allowed_host: AllowedHost = None,
    cors_origin: CorsOrigin = None,
) -> int | None:
    """Serve models over HTTP to everything that speaks the OpenAI API."""
    from localspec.paths import user_paths
    from localspec.server.settings import Limits, ServerSettings
    from localspec.units import parse_size

    paths = user_paths()
    chosen = sampling_settings(sampling)
    served = tuple(_served(name, engine, slots, output, paths) for name in models)
    served = tuple(_for_embeddings(model, pooling, wanted=embeddings) for model in served)
    budget = None
    if len(served) == 1:
        # One model gets what `auto` can make fit; several share what there is, as they are.
        served = (replace(served[0], engine=_fitted(served[0], output, paths, force=engine.force)),)
    elif not engine.force:
        budget = _budget(paths)
    settings = ServerSettings(
        models=served,
        host=host,
        port=port,
        api_keys=_api_keys(api_key_file),
        allowed_hosts=tuple(allowed_host or ()),
        cors_origins=tuple(cors_origin or ()),
        slots=slots,
        idle_unload_s=None if idle_unload is None else _seconds(idle_unload),
        log_prompts=log_prompts,
        sampling=chosen,
        memory_budget=budget,
        limits=replace(Limits(), waiting=max_waiting, body_bytes=parse_size(max_body)),
    )
    _log_to_stderr(quiet=output.quiet)
    from localspec.server.serving import serve

    async def start(model: ServedModel) -> EngineClient:
        return await _start(model, output)

    def on_ready(address: str) -> None:
        names = [model.id for model in settings.models]
        output.document({"address": address, "models": names})
        output.line(f"serving {', '.join(names)} at {address}/v1")

    # The server drains at SIGTERM and then ends by it, as services are expected to.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve(settings, start, on_ready)
    return None


def _served(
    name: str, typed: EngineOptions, slots: int, output: Output, paths: Paths
) -> ServedModel:
    from localspec.server.memory_plan import required_memory
    from localspec.server.settings import ServedModel

    settings = settings_for(name, typed, output, paths)
    path, model_id = settings.target.path, settings.model_id
    if model_id == str(path) or "\\" in model_id:
        # A path says more about this machine than clients need to know.
        model_id = path.stem
    settings = replace(settings, model_id=model_id, n_slots=slots)
    check_settings(settings)
    return ServedModel(model_id, settings, required=required_memory(settings))


def _for_embeddings(model: ServedModel, pooling: str, *, wanted: bool) -> ServedModel:
    """`model`, set up for embeddings if that is wanted or what it was made for."""
    from localspec.ggufmeta.header import read_header
    from localspec.ggufmeta.runnable import is_made_for_embeddings
    from localspec.server.memory_plan import required_memory

    with contextlib.suppress(BadModelFile):  # loading tells what is wrong with the file
        wanted = wanted or is_made_for_embeddings(read_header(model.engine.target.path))
    if not wanted:
        return model
    engine = replace(
        model.engine, embeddings=True, pooling=pooling, draft=None, method="none", n_slots=1
    )
    return replace(model, engine=engine, required=required_memory(engine))


def _fitted(model: ServedModel, output: Output, paths: Paths, *, force: bool) -> EngineSettings:
    from localspec.cli.run_engine import fitting_settings, warn_about_build

    warn_about_build(output)
    return fitting_settings(model.engine, paths, output, force=force)


def _budget(paths: Paths) -> int:
    from localspec.engine.guard import this_machine_quickly
    from localspec.memory.calibration import Calibration
    from localspec.server.memory_plan import memory_budget

    return memory_budget(this_machine_quickly(Calibration(paths.calibration)))


async def _start(model: ServedModel, output: Output) -> EngineClient:
    from localspec.engine.client import EngineClient
    from localspec.engine.questions import PromptOf
    from localspec.engine.settings import ChatMessage, GenerateRequest

    def on_event(event: LoadProgress | Notice) -> None:
        if isinstance(event, LoadProgress):
            output.progress(f"loading the {event.role} of {model.id}", event.fraction)
        else:
            output.warn(event.message, event.hint)

    try:
        engine = await EngineClient.start(model.engine, on_event)
    finally:
        output.clear_status()
    if not model.engine.embeddings:
        # The chat template is compiled at its first use: now, not in the first answer. A broken
        # one is told to those who use it.
        greeting = GenerateRequest(messages=(ChatMessage("user", "hello"),))
        with contextlib.suppress(LocalspecError):
            await engine.ask(PromptOf(greeting))
    return engine


def _api_keys(file: Path | None) -> tuple[str, ...]:
    keys = [key] if (key := os.environ.get("LOCALSPEC_API_KEY", "").strip()) else []
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(
                f"--api-key-file {file}: {reason}", hint="a text file, one key on each line"
            ) from error
        keys += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise UsageError(f"--api-key-file {file} has no keys", hint="one a line")
    return tuple(keys)


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 10**9:
        raise UsageError(f"--idle-unload {text!r} is no time", hint="write it like 90s, 10m or 2h")
    return seconds


def _log_to_stderr(*, quiet: bool) -> None:
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    usual = logging.WARNING if quiet else logging.INFO
    for name, level in (("localspec.server", usual), ("uvicorn", logging.ERROR)):
        log = logging.getLogger(name)
        log.addHandler(handler)
        log.setLevel(level)
        log.propagate = False
