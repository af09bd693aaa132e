"""What requests may say: every parameter with its type and range. Unknown names are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Strict(BaseModel):
    """Values are not converted, and names must be known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class SpeculationBody(Strict):
    """How this one answer is drafted."""

    draft: Literal["none", "ngram", "model", "auto"] | None = None
    draft_max: Annotated[int, Field(ge=0, le=256)] | None = None


class StreamOptions(Strict):
    include_usage: bool = False
    include_obfuscation: bool = False
    """Accepted; nothing is obfuscated on the user's own machine."""


class SamplingBody(Strict):
    """What the three endpoints that generate have in common."""

    model: str | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    top_p: Probability | None = None
    top_k: Count | None = None
    min_p: Probability | None = None
    typical_p: Probability | None = None
    xtc_probability: Probability | None = None
    xtc_threshold: Probability | None = None
    repeat_penalty: Annotated[float, Field(ge=0.01, le=100.0)] | None = None
    repeat_last_n: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    dry_multiplier: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    dry_base: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    dry_allowed_length: Count | None = None
    dry_penalty_last_n: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    dry_sequence_breakers: Annotated[list[str], Field(max_length=64)] | None = None
    mirostat: Annotated[int, Field(ge=0, le=2)] | None = None
    mirostat_tau: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    mirostat_eta: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | bool | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None
    speculation: SpeculationBody | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: Literal["auto", "default"] | None = None


class ManyBody(SamplingBody):
    """What the two older endpoints have in common."""

    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stop: str | Annotated[list[str], Field(max_length=64)] | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None


class TextPart(Strict):
    """A typed piece of a message; only text can be read here."""

    type: Literal["text", "input_text", "output_text", "refusal"]
    text: str = ""
    refusal: str = ""
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    cache_control: dict[str, Any] | None = None

    @property
    def words(self) -> str:
        return self.text or self.refusal


Content = str | list[TextPart]


class CalledFunction(Strict):
    name: str
    arguments: str | dict[str, Any] = ""


class ToolCallBody(Strict):
    """A call the model made in an earlier turn."""

    id: str = ""
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class MessageBody(Strict):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCallBody], Field(max_length=256)] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    audio: None = None
    function_call: None = None


class FunctionBody(Strict):
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[\w.:/-]+$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(Strict):
    type: Literal["function"]
    function: FunctionBody


class FunctionName(Strict):
    name: str


class NamedTool(Strict):
    type: Literal["function"]
    function: FunctionName


ToolChoice = Literal["none", "auto", "required"] | NamedTool


class SchemaBody(Strict):
    name: str = ""
    description: str | None = None
    schema_: Annotated[dict[str, Any] | bool, Field(alias="schema")] = True
    strict: bool | None = None


class ResponseFormat(Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaBody | None = None
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema")] = None
    """llama-server's older form of the same."""


class ChatBody(ManyBody):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[MessageBody], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[ToolBody], Field(max_length=256)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_format: Literal["none", "auto", "deepseek"] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    store: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None


Prompt = str | list[str] | list[int] | list[list[int]]


class CompletionBody(ManyBody):
    """`POST /v1/completions`."""

    prompt: Prompt
    n_predict: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    suffix: Literal[""] | None = None


class EmbeddingBody(Strict):
    """`POST /v1/embeddings`."""

    model: str | None = None
    input: Prompt
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=2**20)] | None = None
    user: str | None = None


class TokenizeBody(Strict):
    """`POST /tokenize`."""

    content: str
    model: str | None = None
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeBody(Strict):
    """`POST /detokenize`."""

    tokens: list[Annotated[int, Field(ge=0, le=2**31 - 1)]]
    model: str | None = None


class TemplateBody(Strict):
    """`POST /apply-template`."""

    messages: Annotated[list[MessageBody], Field(min_length=1)]
    model: str | None = None
    tools: Annotated[list[ToolBody], Field(max_length=256)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


REFUSED = {
    "functions": "use tools",
    "function_call": "use tool_choice",
    "best_of": "use n",
    "audio": "this server speaks text alone",
    "web_search_options": "this server searches nothing",
    "prediction": "the n-gram drafter predicts from the conversation by itself",
    "verbosity": "ask for it in the prompt",
    "previous_response_id": "this server keeps no conversations: send all of it as input",
    "conversation": "this server keeps no conversations: send all of it as input",
    "background": "answers are given at once",
    "id_slot": "requests find the slot that holds their conversation by themselves",
    "lora": "adapters are not supported",
    "samplers": "the order of samplers is llama.cpp's default",
    "n_probs": "use logprobs and top_logprobs",
}
"""Parameters that other servers have: why not here, or what to use instead."""
