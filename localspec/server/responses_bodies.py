"""What `POST /v1/responses` may say, and how it is said in the older form."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from localspec.server.bodies import (
    CalledFunction,
    ChatBody,
    Content,
    FunctionBody,
    FunctionName,
    MessageBody,
    NamedTool,
    ResponseFormat,
    SamplingBody,
    SchemaBody,
    StreamOptions,
    Strict,
    TextPart,
    ToolBody,
    ToolCallBody,
)
from localspec.server.conversation import text_of

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class MessageItem(Strict):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class CallItem(Strict):
    """A call the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class CallOutputItem(Strict):
    """What a called function gave."""

    type: Literal["function_call_output"]
    call_id: str
    output: Content
    id: str | None = None
    status: str | None = None


class ReasoningText(Strict):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(Strict):
    """What the model thought in an earlier turn."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: Annotated[list[ReasoningText], Field(default_factory=list)]
    content: list[ReasoningText] | None = None
    encrypted_content: None = None
    status: str | None = None


Item = MessageItem | CallItem | CallOutputItem | ReasoningItem


class FlatTool(Strict):
    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[\w.:/-]+$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FlatChoice(Strict):
    type: Literal["function"]
    name: str


class TextFormat(Strict):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class TextBody(Strict):
    format: TextFormat | None = None


class ReasoningBody(Strict):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesBody(SamplingBody):
    """`POST /v1/responses`. Nothing is stored: every request brings the whole conversation."""

    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    text: TextBody | None = None
    tools: Annotated[list[FlatTool], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | FlatChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningBody | None = None
    include: list[Literal["reasoning.encrypted_content", "message.output_text.logprobs"]] | None = (
        None
    )
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    stream_options: StreamOptions | None = None
    store: Literal[False] | None = None
    truncation: Literal["disabled"] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


def as_chat(body: ResponsesBody) -> ChatBody:
    """The same request as a chat completion."""
    common = {
        name: value
        for name in SamplingBody.model_fields
        if (value := getattr(body, name)) is not None
    }
    chat = ChatBody.model_construct(
        messages=_messages(body),
        max_completion_tokens=body.max_output_tokens,
        response_format=_format(body),
        tools=[
            ToolBody(
                type="function",
                function=FunctionBody(
                    name=tool.name,
                    description=tool.description,
                    parameters=tool.parameters,
                    strict=tool.strict,
                ),
            )
            for tool in body.tools or ()
        ]
        or None,
        tool_choice=NamedTool(type="function", function=FunctionName(name=body.tool_choice.name))
        if isinstance(body.tool_choice, FlatChoice)
        else body.tool_choice,
        parallel_tool_calls=body.parallel_tool_calls,
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        chat_template_kwargs=body.chat_template_kwargs,
        logprobs=wants_logprobs(body),
        top_logprobs=body.top_logprobs if wants_logprobs(body) else None,
    )
    return chat.model_copy(update=common)


def wants_logprobs(body: ResponsesBody) -> bool:
    """Asked for by `include`; OpenAI takes `top_logprobs` alone as asking for them too."""
    return "message.output_text.logprobs" in (body.include or ()) or bool(body.top_logprobs)


def _messages(body: ResponsesBody) -> list[MessageBody]:
    messages: list[MessageBody] = []
    if body.instructions:
        messages.append(MessageBody(role="system", content=body.instructions))
    if isinstance(body.input, str):
        return [*messages, MessageBody(role="user", content=body.input)]
    thought = ""
    for item in body.input:
        if isinstance(item, ReasoningItem):
            thought = "".join(part.text for part in (item.content or item.summary))
        elif isinstance(item, CallOutputItem):
            messages.append(
                MessageBody(role="tool", content=item.output, tool_call_id=item.call_id)
            )
        elif isinstance(item, CallItem):
            called = CalledFunction(name=item.name, arguments=item.arguments)
            call = ToolCallBody(id=item.call_id, function=called)
            last = messages[-1] if messages else None
            # Calls of one turn are one message, together with the text before them.
            if last is not None and last.role == "assistant":
                last.tool_calls = [*(last.tool_calls or ()), call]
            else:
                messages.append(
                    MessageBody(
                        role="assistant", tool_calls=[call], reasoning_content=thought or None
                    )
                )
            thought = ""
        else:
            is_ours = item.role == "assistant"
            messages.append(
                MessageBody(
                    role=item.role,
                    content=[TextPart(type="text", text=text_of(item.content))],
                    reasoning_content=(thought or None) if is_ours else None,
                )
            )
            thought = ""
    return messages


def _format(body: ResponsesBody) -> ResponseFormat | None:
    wanted = body.text.format if body.text else None
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return ResponseFormat(type="json_object")
    if wanted.schema_ is None:
        return ResponseFormat(type="json_schema")
    schema = SchemaBody.model_validate({"schema": wanted.schema_})
    return ResponseFormat(type="json_schema", json_schema=schema)
