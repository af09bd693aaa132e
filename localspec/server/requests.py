"""From a checked body to what the engine is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from localspec.engine.settings import GenerateRequest
from localspec.server.bodies import ChatBody, NamedTool, SamplingBody
from localspec.server.conversation import messages_of, tools_of
from localspec.server.failures import invalid
from localspec.server.json_schema import SchemaError
from localspec.server.models import Place
from localspec.server.sampling_choice import (
    for_choice,
    length_of,
    sampling_for,
    schema_grammar,
    stops_of,
)
from localspec.server.service import Service
from localspec.server.tools.formats import format_of
from localspec.server.tools.grammar import call_grammar


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """A chat request, understood."""

    requests: tuple[GenerateRequest, ...]
    """One for each answer."""
    tools: tuple[dict[str, Any], ...]
    """What calls are looked for; empty when the model may not call."""
    several_calls: bool
    reasoning_apart: bool
    logprobs: bool


def plan_chat(body: ChatBody, place: Place, service: Service) -> ChatPlan:
    """Raises ApiError 400 that names the parameter that cannot be."""
    offered = tools_of(body.tools)
    tools, must_call = _choose_tools(body, offered)
    several = body.parallel_tool_calls is not False
    grammar = _chat_grammar(body, tools, place, must_call=must_call, several=several)
    request = GenerateRequest(
        messages=messages_of(body.messages),
        tools=tools,
        template_variables=_variables(body, constrained=bool(grammar or body.grammar)),
        max_tokens=length_of(body.max_completion_tokens, body.max_tokens),
        stop=stops_of(body.stop),
        top_logprobs=_top_logprobs(body),
    )
    return ChatPlan(
        requests=answers_for(request, body, place, service, n=body.n or 1, grammar=grammar),
        tools=tools,
        several_calls=several,
        reasoning_apart=body.reasoning_format != "none",
        logprobs=bool(body.logprobs),
    )


def answers_for(
    request: GenerateRequest,
    body: SamplingBody,
    place: Place,
    service: Service,
    *,
    n: int = 1,
    grammar: str = "",
) -> tuple[GenerateRequest, ...]:
    """`request` with sampling and speculation, once for each answer. Raises ApiError 400."""
    n_vocab = place.engine.facts.get("n_vocab", 2**31) if place.engine else 2**31
    sampling = sampling_for(body, service.settings.sampling, n_vocab=n_vocab, grammar=grammar)
    method, draft_max = _speculation(body, place)
    request = replace(
        request,
        method=method,
        draft_max=draft_max,
        ignore_end=bool(body.ignore_eos),
        fresh_caches=body.cache_prompt is False,
    )
    return tuple(replace(request, sampling=for_choice(sampling, index)) for index in range(n))


def _speculation(body: SamplingBody, place: Place) -> tuple[str | None, int | None]:
    wanted = body.speculation
    if wanted is None:
        return None, None
    engine = place.model.engine
    if wanted.draft == "model" and engine.draft is None:
        raise invalid(
            f"speculation.draft: {place.model.id} has no draft model",
            "speculation.draft",
            "invalid_value",
        )
    if wanted.draft_max is not None and wanted.draft_max > engine.draft_max:
        raise invalid(
            f"speculation.draft_max: {wanted.draft_max} is above this server's {engine.draft_max}",
            "speculation.draft_max",
            "invalid_value",
        )
    if wanted.draft_max == 0:
        return "none", None
    return wanted.draft, wanted.draft_max


def _top_logprobs(body: ChatBody) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs is not None:
        raise invalid("top_logprobs: logprobs must be true", "top_logprobs", "invalid_value")
    return None


def _choose_tools(
    body: ChatBody, offered: tuple[dict[str, Any], ...]
) -> tuple[tuple[dict[str, Any], ...], bool]:
    """The tools that the model sees, and whether it must call one."""
    chosen = body.tool_choice
    if chosen is None or chosen == "auto":
        return offered, False
    if chosen == "none":
        return (), False
    if not offered:
        raise invalid("tool_choice: there are no tools", "tool_choice", "invalid_value")
    if isinstance(chosen, NamedTool):
        name = chosen.function.name
        named = tuple(tool for tool in offered if tool["function"]["name"] == name)
        if not named:
            raise invalid(f"tool_choice: there is no tool {name[:80]!r}", "tool_choice")
        return named, True
    return offered, True


def _chat_grammar(
    body: ChatBody,
    tools: tuple[dict[str, Any], ...],
    place: Place,
    *,
    must_call: bool,
    several: bool,
) -> str:
    schema = _response_schema(body)
    if must_call or (tools and schema is not None):
        form = format_of(place.chat_template)
        try:
            several = several and not isinstance(body.tool_choice, NamedTool)
            answer = None if must_call else schema
            return call_grammar(tools, form, several=several, answer=answer)
        except SchemaError as error:
            raise invalid(f"tools: {error}", "tools", "invalid_schema") from None
    return "" if schema is None else schema_grammar(schema, "response_format")


def _response_schema(body: ChatBody) -> Any:
    """The JSON schema of the answer; None for free text."""
    wanted = body.response_format
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"} if wanted.schema_ is None else wanted.schema_
    if wanted.json_schema is not None:
        return wanted.json_schema.schema_
    if wanted.schema_ is None:
        raise invalid(
            "response_format.json_schema is missing",
            "response_format.json_schema",
            "missing_parameter",
        )
    return wanted.schema_


def _variables(body: ChatBody, *, constrained: bool) -> dict[str, Any]:
    """What the template is told. A grammar begins with the answer, so a model that has to follow
    one does not think first."""
    variables: dict[str, Any] = {}
    effort = body.reasoning_effort
    if effort is not None:
        variables["reasoning_effort"] = effort
        variables["enable_thinking"] = effort not in ("none", "minimal")
    if constrained:
        variables["enable_thinking"] = False
    return {**variables, **checked_variables(body.chat_template_kwargs)}


def checked_variables(given: dict[str, Any] | None) -> dict[str, Any]:
    """Names for the chat template. Raises ApiError 400 for those that the request itself makes."""
    given = given or {}
    taken = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"} & set(given)
    if taken:
        name = f"chat_template_kwargs.{min(taken)}"
        raise invalid(f"{name} is made from the request itself", name, "invalid_value")
    return given
