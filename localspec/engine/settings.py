"""What is asked of the engine: how to load, what to generate. Plain data between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localspec.decoding.sampling import SamplingSettings

DRAFT_METHODS = ("none", "ngram", "model", "auto")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model file and where it runs."""

    path: Path
    gpu_layers: int | None = None
    """Layers on the GPU; None means all of them."""
    kv_type: str = "f16"
    """Type of K and V in the cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl."""
    experts_on_cpu: int = 0
    """Layers, from the first, whose experts stay in host memory."""
    tensor_split: tuple[float, ...] = ()
    """Shares of the layers by GPU; empty goes by free memory."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Everything that is fixed while the models stay loaded."""

    target: ModelSettings
    model_id: str = ""
    """How the user named the model; shown and returned, never interpreted."""
    draft: ModelSettings | None = None
    method: str = "auto"
    """One of DRAFT_METHODS; a request may choose another at any time."""
    draft_max: int = 16
    """Most draft tokens in a round."""
    draft_min: int = 0
    """A shorter draft is not verified but dropped."""
    p_min: float = 0.6
    """The draft model stops where its own probability falls below."""
    n_ctx: int = 0
    """Tokens of context; 0 takes the model's own, at most 8192."""
    n_slots: int = 1
    """Answers decoded at a time; each has `n_ctx` tokens of context of its own."""
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = 0
    """0 takes the physical cores."""
    flash_attn: str = "auto"
    """`on`, `off` or `auto`."""
    context_shift: bool = False
    """Drop the oldest turns instead of stopping where the context ends."""
    lookup_static: Path | None = None
    lookup_dynamic: Path | None = None
    """A dynamic lookup cache to load and save, instead of the one in `lookup_folder`."""
    lookup_folder: Path | None = None
    """Where dynamic lookup caches are kept, one per vocabulary; None keeps none."""
    planned: tuple[tuple[str, int], ...] = ()
    """Bytes planned on each GPU, by its name; to be held against what the load really takes."""
    planned_host: int = field(default=0, compare=False)
    """Bytes planned in host memory; 0 where nothing was planned."""
    calibration: Path | None = None
    """Where that difference is remembered; None remembers nothing."""
    embeddings: bool = False
    """Turn texts into vectors instead of generating."""
    pooling: str = "auto"
    """How the vectors of a text's tokens become one: `mean`, `cls`, `last`, or what the model file
    says."""
    cost_folder: Path | None = None
    """Where measured cost curves are kept, one per model file, device, threads and build."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    thinking: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Of an assistant: `{"id", "type": "function", "function": {"name", "arguments": {...}}}`."""
    tool_call_id: str = ""
    """Of a tool's message: the call it answers."""
    name: str = ""
    """Of a tool's message: the function that was called."""

    def as_template_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [dict(call) for call in self.tool_calls]
        if self.tool_call_id:
            data["tool_call_id"] = self.tool_call_id
        if self.name:
            data["name"] = self.name
        return data


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One answer. Either `messages` (through the chat template) or `prompt` (as it stands)."""

    messages: tuple[ChatMessage, ...] = ()
    prompt: str = ""
    prompt_tokens: tuple[int, ...] = ()
    """Token ids instead of text; used as they stand."""
    tools: tuple[dict[str, Any], ...] = ()
    """Functions the model may call, as the Chat Completions API describes them."""
    template_variables: dict[str, Any] = field(default_factory=dict)
    """Further names for the chat template, such as `enable_thinking`."""
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    max_tokens: int | None = None
    """None: until the model ends or the context does."""
    stop: tuple[str, ...] = ()
    method: str | None = None
    """Another drafter than the engine's, for this answer."""
    draft_max: int | None = None
    fixed_length: bool = False
    """Verify everything the drafter proposes up to draft_max, whatever it costs: for measuring.
    `auto` is then a chain: n-grams first, the draft model where they have nothing."""
    fresh_caches: bool = False
    """Start with an empty dynamic cache and no reused prefix: for measuring."""
    top_logprobs: int | None = None
    """Tell the chance of every token, and of so many of the most probable; None tells nothing."""
    ignore_end: bool = False
    """Go on past end tokens: for measuring."""


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Texts to be turned into vectors."""

    texts: tuple[str | tuple[int, ...], ...]
    """Each as text, to which the model's special tokens are added, or as token ids."""
    dimensions: int | None = None
    """Keep so many of each vector's first components; None keeps all."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors of length one, in the order of the texts."""

    vectors: tuple[bytes, ...]
    """Of each text: float32, in this machine's byte order."""
    n_embd: int
    """Components of each vector."""
    tokens: tuple[int, ...]
    """Tokens of each text, special ones included."""
