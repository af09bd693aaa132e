"""Options that several commands share: `run`, `bench`, `serve`, `fit` and the UI mean the same.

Use them as annotations of a command's parameters, `ctx: options.Ctx = "auto"`, or of the fields of
a group of options (`localspec.cli.engine_options`, `localspec.cli.sampling_options`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SPECULATION = "Speculation"
MEMORY = "Model and memory"
SAMPLING = "Sampling"
ANSWER = "Answer"

# --- arguments ---

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name from `localspec list`, a path to a .gguf file, or owner/repo[:file].",
        show_default=False,
    ),
]

# --- speculation ---

Draft = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="none, ngram, model (the pair's own draft), auto, or a draft model by path or name.",
        rich_help_panel=SPECULATION,
    ),
]
DraftMax = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Most draft tokens in a round.  [default: the pair's, else 16]",
        rich_help_panel=SPECULATION,
    ),
]
DraftMin = Annotated[
    int,
    typer.Option(metavar="N", help="Drop drafts shorter than this.", rich_help_panel=SPECULATION),
]
PMin = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="The draft model stops below this confidence.  [default: the pair's, else 0.6]",
        rich_help_panel=SPECULATION,
    ),
]
LookupStatic = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A lookup cache built from a corpus (`localspec cache build`).",
        rich_help_panel=SPECULATION,
    ),
]
LookupDynamic = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|off",
        help="Where past sessions are learned from.  [default: one file per vocabulary]",
        rich_help_panel=SPECULATION,
    ),
]

# --- model and memory ---

Ctx = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="Tokens of context, such as 32k; auto is the model's own, at most 8k, if it fits.",
        rich_help_panel=MEMORY,
    ),
]
KvType = Annotated[
    str,
    typer.Option(
        metavar="TYPE",
        help="Type of the KV cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl.",
        rich_help_panel=MEMORY,
    ),
]
DraftKvType = Annotated[
    str,
    typer.Option(metavar="TYPE", help="The same of the draft model.", rich_help_panel=MEMORY),
]
GpuLayers = Annotated[
    str,
    typer.Option(
        metavar="N|all|auto",
        help="Layers of the target on the GPU; auto is as many as fit.",
        rich_help_panel=MEMORY,
    ),
]
DraftGpuLayers = Annotated[
    str,
    typer.Option(
        metavar="N|all|auto", help="Layers of the draft model on the GPU.", rich_help_panel=MEMORY
    ),
]
CpuMoe = Annotated[
    bool,
    typer.Option(
        "--cpu-moe",
        help="Keep the experts of all layers in host memory.",
        rich_help_panel=MEMORY,
    ),
]
NCpuMoe = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Keep the experts of the first N layers in host memory.",
        rich_help_panel=MEMORY,
    ),
]
TensorSplit = Annotated[
    str,
    typer.Option(
        metavar="A,B",
        help="Shares of the layers by card.  [default: by free memory]",
        show_default=False,
        rich_help_panel=MEMORY,
    ),
]
Threads = Annotated[
    int,
    typer.Option(metavar="N", help="CPU threads; 0 is one per core.", rich_help_panel=MEMORY),
]
Batch = Annotated[
    int,
    typer.Option(metavar="N", help="Most tokens handed over at once.", rich_help_panel=MEMORY),
]
Ubatch = Annotated[
    int,
    typer.Option(metavar="N", help="Most tokens computed at once.", rich_help_panel=MEMORY),
]
FlashAttn = Annotated[
    str, typer.Option(metavar="on|off|auto", help="Flash attention.", rich_help_panel=MEMORY)
]
ContextShift = Annotated[
    bool,
    typer.Option(
        "--context-shift",
        help="Drop the oldest turns when the context is full, instead of stopping.",
        rich_help_panel=MEMORY,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Start although it does not fit.", rich_help_panel=MEMORY),
]

# --- sampling ---

Temp = Annotated[
    float,
    typer.Option(
        metavar="T",
        help="Temperature; 0 always takes the most probable token.",
        rich_help_panel=SAMPLING,
    ),
]
TopK = Annotated[
    int,
    typer.Option(
        metavar="N", help="Keep the N most probable; 0 keeps all.", rich_help_panel=SAMPLING
    ),
]
TopP = Annotated[
    float,
    typer.Option(
        metavar="P",
        help="Keep the most probable that make up P; 1 is off.",
        rich_help_panel=SAMPLING,
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        metavar="P",
        help="Drop what is below P times the most probable; 0 is off.",
        rich_help_panel=SAMPLING,
    ),
]
RepeatPenalty = Annotated[
    float,
    typer.Option(
        metavar="X", help="Penalty on tokens seen lately; 1 is off.", rich_help_panel=SAMPLING
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="The same seed, the same answer; not with auto and a draft model above temperature 0.",
        rich_help_panel=SAMPLING,
    ),
]
Grammar = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="GBNF grammar that the answer follows.", rich_help_panel=SAMPLING
    ),
]
SamplerSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--sampler",
        metavar="NAME=VALUE",
        help="Another setting of llama.cpp's sampler, such as dry-multiplier=0.8; repeatable.",
        rich_help_panel=SAMPLING,
        show_default=False,
    ),
]

# --- the answer ---

MaxTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Stop after N tokens.  [default: the model decides]",
        rich_help_panel=ANSWER,
    ),
]
System = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The system message.", rich_help_panel=ANSWER)
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help=r"Stop before this text; repeatable; \n is a line break.",
        rich_help_panel=ANSWER,
        show_default=False,
    ),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="Continue the prompt as it stands: no chat template.", rich_help_panel=ANSWER
    ),
]
