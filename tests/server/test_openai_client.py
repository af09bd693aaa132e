"""The official client understands every answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from tests.support.serving import RunningServer

pytestmark = pytest.mark.engine

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 6}},
        "required": ["city"],
    },
}
ASK: list[Any] = [{"role": "user", "content": "What is the weather?"}]


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as made:
        yield made


def test_a_chat_completion(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=ASK, max_tokens=5)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_with_usage_at_the_end(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny",
        messages=ASK,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 6
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_asynchronous_client(server: RunningServer) -> None:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
        answer = await client.chat.completions.create(model="tiny", messages=ASK, max_tokens=3)
        assert answer.choices[0].finish_reason in ("stop", "length")
        stream = await client.chat.completions.create(
            model="tiny", messages=ASK, max_tokens=3, stream=True
        )
        assert [chunk async for chunk in stream]


def test_a_tool_is_called_and_its_result_taken(client: openai.OpenAI) -> None:
    tools: list[Any] = [{"type": "function", "function": WEATHER}]
    answer = client.chat.completions.create(
        model="tiny",
        messages=ASK,
        tools=tools,
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=400,
    )
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls is not None
    call = choice.message.tool_calls[0]
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city"}
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages: list[Any] = [*ASK, choice.message, result]
    after = client.chat.completions.create(
        model="tiny", messages=messages, tools=tools, tool_choice="none", max_tokens=3
    )
    assert after.choices[0].message.tool_calls is None


def test_a_tool_call_in_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny",
        messages=ASK,
        tools=[{"type": "function", "function": {**WEATHER, "strict": True}}],  # type: ignore[typeddict-item]
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=400,
    ) as stream:
        stream.until_done()
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls
    assert set(json.loads(message.tool_calls[0].function.arguments)) == {"city"}


def test_a_structured_answer_is_parsed(client: openai.OpenAI) -> None:
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=8)
        age: int = pydantic.Field(ge=0, le=120)
        married: bool

    answer = client.chat.completions.parse(
        model="tiny", messages=ASK, response_format=Person, max_tokens=300, temperature=1
    )
    person = answer.choices[0].message.parsed
    assert person is not None
    assert 0 <= person.age <= 120


def test_text_that_goes_on(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="tiny", prompt=["one", "two"], n=2, max_tokens=3, echo=True
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    starts = [choice.text[:3] for choice in answer.choices]
    assert starts == ["one", "one", "two", "two"]
    pieces = list(client.completions.create(model="tiny", prompt="x", max_tokens=3, stream=True))
    assert pieces[-1].choices[0].finish_reason in ("stop", "length")


def test_a_response(client: openai.OpenAI) -> None:
    response = client.responses.create(
        model="tiny", instructions="Be brief", input="Hello", max_output_tokens=2000
    )
    assert response.status in ("completed", "incomplete")
    assert response.output[0].type == "message"
    assert response.usage is not None
    assert response.usage.output_tokens > 0


def test_a_response_that_calls_a_tool(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", **WEATHER}
    response = client.responses.create(
        model="tiny",
        input="weather?",
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=400,
    )
    call = response.output[0]
    assert call.type == "function_call"
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    asked: Any = {"role": "user", "content": "weather?"}
    called: Any = call.model_dump(exclude_none=True)
    after = client.responses.create(
        model="tiny", input=[asked, called, output], max_output_tokens=3
    )
    assert after.output_text is not None


def test_events_of_a_response_add_up_to_it(client: openai.OpenAI) -> None:
    text, names, numbers = "", [], []
    final = None
    for event in client.responses.create(
        model="tiny",
        input="Hello",
        max_output_tokens=300,
        stream=True,
        text={"format": {"type": "json_schema", "name": "x", "schema": {"enum": ["ab", "cd"]}}},
    ):
        names.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.completed":
            final = event.response
    assert names[:2] == ["response.created", "response.in_progress"]
    assert numbers == list(range(len(numbers)))
    assert final is not None
    assert final.output_text == text
    assert json.loads(text) in ("ab", "cd")


def test_errors_are_those_the_client_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="tiny", messages=ASK, temperature=-1)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=ASK)


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "localspec"


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI) -> None:
    """A greedy answer takes the most probable token; probabilities add up to no more than one."""
    asked: Any = {
        "model": "tiny", "messages": ASK, "max_tokens": 12, "temperature": 0, "logprobs": True,
        "top_logprobs": 20, "extra_body": {"ignore_eos": True},
    }  # fmt: skip
    choice = client.chat.completions.create(**asked).choices[0]
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert len(choice.logprobs.content) == 12
    for token in choice.logprobs.content:
        ranked = [top.logprob for top in token.top_logprobs]
        assert ranked == sorted(ranked, reverse=True)
        assert len(ranked) == 20
        assert token.logprob == ranked[0]
        assert sum(math.exp(value) for value in ranked) <= 1 + 1e-9
    written = b"".join(bytes(token.bytes or []) for token in choice.logprobs.content)
    assert written.decode("utf-8", "replace") == choice.message.content
    streamed = [
        token
        for chunk in client.chat.completions.create(**asked, stream=True)
        if chunk.choices[0].logprobs and chunk.choices[0].logprobs.content
        for token in chunk.choices[0].logprobs.content
    ]
    whole = [(t.token, round(t.logprob, 3)) for t in choice.logprobs.content]
    assert [(t.token, round(t.logprob, 3)) for t in streamed] == whole


def test_log_probabilities_of_text_that_goes_on(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="tiny", prompt="one", max_tokens=5, logprobs=2, temperature=0, echo=True,
        extra_body={"ignore_eos": True},
    )  # fmt: skip
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.tokens is not None
    assert "one" + "".join(found.tokens) == answer.choices[0].text
    assert found.text_offset is not None
    assert found.text_offset[0] == 3
    assert found.top_logprobs is not None
    assert all(len(top) <= 2 for top in found.top_logprobs)


def test_log_probabilities_of_a_response(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "tiny", "input": "Hello", "max_output_tokens": 12, "temperature": 0,
        "include": ["message.output_text.logprobs"], "top_logprobs": 3,
        "extra_body": {"ignore_eos": True},
    }  # fmt: skip
    message = client.responses.create(**asked).output[0]
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert len(part.logprobs) == 12
    for token in part.logprobs:
        assert len(token.top_logprobs) == 3
        assert token.logprob == token.top_logprobs[0].logprob
    assert b"".join(bytes(t.bytes) for t in part.logprobs).decode("utf-8", "replace") == part.text
    streamed, done = [], None
    for event in client.responses.create(**asked, stream=True):
        if event.type == "response.output_text.delta":
            streamed += event.logprobs
        elif event.type == "response.output_text.done":
            done = event.logprobs
    assert done is not None
    whole = [(t.token, round(t.logprob, 3)) for t in part.logprobs]
    assert [(t.token, round(t.logprob, 3)) for t in done] == whole
    assert [(t.token, round(t.logprob, 3)) for t in streamed] == whole[: len(streamed)]
    assert streamed


def test_a_response_has_log_probabilities_only_when_asked(client: openai.OpenAI) -> None:
    message = client.responses.create(model="tiny", input="Hello", max_output_tokens=4).output[0]
    assert message.type == "message"
    assert message.content[0].type == "output_text"
    assert message.content[0].logprobs == []
