"""What the server takes and refuses, over real connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.serving import RunningServer, serving

pytestmark = pytest.mark.engine

HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with server.http() as client:
        yield client


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert set(response.json()) == {"error"}
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in response.text
    return error


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 2.5}, "top_k"),
        ({"max_tokens": "4"}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 99}, "n"),
        ({"stop": [""]}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"seed": 1.5}, "seed"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}],
                    }
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"tools": [{"type": "search"}]}, "tools[0].type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
            "response_format",
        ),
        ({"speculation": {"draft": "magic"}}, "speculation.draft"),
        ({"speculation": {"draft": "model"}}, "speculation.draft"),
        ({"speculation": {"draft_max": 200}}, "speculation.draft_max"),
        ({"speculation": {"depth": 2}}, "speculation.depth"),
        ({"store": True}, "store"),
        ({"functions": []}, "functions"),
        ({"max_token": 5}, "max_token"),
        ({"model": "gpt-4o"}, "model"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(
    http: httpx.Client, change: dict[str, Any], param: str
) -> None:
    response = http.post("/v1/chat/completions", json={**HI, **change})
    assert response.status_code == (404 if param == "model" else 400), response.text
    error = error_of(response)
    assert error["param"] == param
    assert param.split(".")[-1].split("[")[0] in error["message"] or param == "model"


def test_a_broken_grammar_is_a_400_and_not_a_dead_engine(http: httpx.Client) -> None:
    response = http.post("/v1/chat/completions", json={**HI, "grammar": "root ::= ("})
    assert response.status_code == 400
    assert http.post("/v1/chat/completions", json=HI).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"messages": NaN}', "invalid_json"),
        (b'{"messages": "\xff\xfe"}', "invalid_utf8"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "invalid_utf8"),
        (b"[1]", None),
        (b"[" * 5000 + b"]" * 5000, None),
        (b'{"seed": ' + b"9" * 5000 + b"}", "invalid_json"),
    ],
)
def test_what_is_no_json_object_is_a_400(http: httpx.Client, body: bytes, code: str | None) -> None:
    response = http.post("/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert error_of(response)["code"] == code


def test_text_with_any_character_is_answered(http: httpx.Client) -> None:
    text = "\0\x01\u2028 \U0001f600 ﷽ <|im_end|> {{ 7 * 7 }}"
    body = {**HI, "messages": [{"role": "user", "content": text}]}
    assert http.post("/v1/chat/completions", json=body).status_code == 200


@pytest.mark.parametrize(
    ("path", "param", "prompt"),
    [
        ("chat/completions", "messages", [{"role": "user", "content": "zq" * 4000}]),
        ("completions", "prompt", "zq" * 4000),
        ("responses", "input", "zq" * 4000),
    ],
)
def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(
    http: httpx.Client, path: str, param: str, prompt: Any
) -> None:
    response = http.post(f"/v1/{path}", json={param: prompt})
    assert response.status_code == 400
    error = error_of(response)
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == param
    assert "4096" in error["message"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(http: httpx.Client) -> None:
    response = http.post("/v1/chat/completions", content=b" " * (9 * 1024 * 1024))
    assert response.status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(200):
            yield b" " * 65536

    try:
        response = http.post("/v1/chat/completions", content=endless())
    except (httpx.WriteError, httpx.ReadError):
        return  # the server has answered and hung up while the body was still on its way
    assert response.status_code == 413


def test_too_many_headers_are_refused(http: httpx.Client) -> None:
    headers = [(f"x-{number}", "1") for number in range(120)]
    assert http.get("/health", headers=headers).status_code == 431


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:80"}, 200),
        ({"host": "192.168.1.7"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:80"}, 403),
        ({"host": "localhost@evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_a_foreign_page_or_a_rebound_name_is_refused(
    http: httpx.Client, headers: dict[str, str], status: int
) -> None:
    assert http.get("/v1/models", headers=headers).status_code == status
    assert http.post("/v1/chat/completions", json=HI, headers=headers).status_code == status


def test_a_page_of_the_server_itself_may_ask(server: RunningServer, http: httpx.Client) -> None:
    assert http.get("/v1/models", headers={"origin": server.address}).status_code == 200


def test_cors_is_off(http: httpx.Client) -> None:
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    response = http.options("/v1/chat/completions", headers=asked)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_paths_and_methods_that_are_not_there_are_errors_of_the_same_shape(
    http: httpx.Client,
) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/health", 405),
        ("GET", "/v1/models/nothing", 404),
    ):
        response = http.request(method, path)
        assert response.status_code == status
        error_of(response)


def test_bytes_that_are_no_http_do_not_stop_the_server(
    server: RunningServer, http: httpx.Client
) -> None:
    place = urlsplit(server.address)
    assert place.hostname
    for junk in (b"\0\xff" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port or 0), 10) as connection:
            connection.sendall(junk)
            assert b"200" not in connection.recv(4096)[:20]
    assert http.get("/health").json() == {"status": "ok"}


def test_tokens_and_text_turn_into_each_other(http: httpx.Client) -> None:
    text = "the thin tree é 😀"
    tokens = http.post("/tokenize", json={"content": text}).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json() == {"content": text}
    pieces = http.post("/tokenize", json={"content": text, "with_pieces": True}).json()["tokens"]
    assert [piece["id"] for piece in pieces] == tokens
    whole = b"".join(
        p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces
    )
    assert whole.decode() == text
    assert http.post("/detokenize", json={"tokens": [10**6]}).status_code == 400


def test_the_template_is_applied_as_the_model_would_see_it(http: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    prompt = http.post("/apply-template", json=body).json()["prompt"]
    assert prompt == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


def test_tools_that_the_template_does_not_know_reach_the_prompt(http: httpx.Client) -> None:
    function = {"name": "look_up", "parameters": {"type": "object", "properties": {}}}
    body = {
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [{"type": "function", "function": function}],
    }
    prompt = http.post("/apply-template", json=body).json()["prompt"]
    assert '"name": "look_up"' in prompt
    assert "<tool_call>" in prompt


def test_metrics_count_what_was_answered(http: httpx.Client) -> None:
    def value(name: str) -> float:
        lines = http.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    name = 'localspec_tokens_total{model="tiny",kind="completion"}'
    before = value(name)
    body = {**HI, "max_tokens": 7, "ignore_eos": True}
    answer = http.post("/v1/chat/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] == 7
    assert value(name) == before + 7
    assert value("localspec_requests_running") == 0


def test_an_answer_tells_its_speed_and_its_speculation(http: httpx.Client) -> None:
    body = {**HI, "max_tokens": 12, "ignore_eos": True, "speculation": {"draft": "none"}}
    response = http.post("/v1/chat/completions", json=body)
    answer = response.json()
    assert float(response.headers["x-tokens-per-second"]) > 0
    assert answer["timings"]["predicted_n"] == 12
    assert answer["timings"]["draft_n"] == answer["timings"]["draft_n_accepted"] == 0
    assert answer["speculation"]["method"] == "none"
    drafted = {**body, "speculation": {"draft": "ngram", "draft_max": 3}}
    answer = http.post("/v1/chat/completions", json=drafted).json()
    assert answer["speculation"]["method"] == "ngram"
    assert len(answer["speculation"]["accepted_per_position"]) <= 3


def test_a_stream_says_the_same_as_the_whole_answer(http: httpx.Client) -> None:
    body = {**HI, "max_tokens": 20, "temperature": 0, "ignore_eos": True}
    whole = http.post("/v1/chat/completions", json=body).json()
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    text, last = "", {}
    with http.stream("POST", "/v1/chat/completions", json={**body, **usage}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        last = json.loads(line.removeprefix("data: "))
        for choice in last["choices"]:
            text += choice["delta"].get("content", "")
    assert text == whole["choices"][0]["message"]["content"]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_several_answers_differ_and_one_seed_gives_the_same_ones_again(
    http: httpx.Client,
) -> None:
    body = {**HI, "max_tokens": 12, "n": 3, "seed": 5, "temperature": 1.5, "ignore_eos": True}

    def texts() -> list[str]:
        answer = http.post("/v1/chat/completions", json=body).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
        assert answer["usage"]["completion_tokens"] == 36
        return [choice["message"]["content"] for choice in answer["choices"]]

    first = texts()
    assert len(set(first)) == 3
    assert texts() == first


def test_stop_strings_end_the_answer_and_are_left_out(http: httpx.Client) -> None:
    body = {**HI, "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    text = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    stop = text[10:13]
    cut = http.post("/v1/chat/completions", json={**body, "stop": stop}).json()["choices"][0]
    assert cut["message"]["content"] == text[: text.index(stop)]
    assert cut["finish_reason"] == "stop"


def test_logit_bias_forces_a_token(http: httpx.Client) -> None:
    token = http.post("/tokenize", json={"content": "Q"}).json()["tokens"][0]
    body = {**HI, "logit_bias": {str(token): 100}, "max_tokens": 5, "temperature": 1}
    answer = http.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == "QQQQQ"


def test_a_second_turn_reuses_the_first(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "tell me a long story " * 10}]
    first = http.post("/v1/chat/completions", json={**HI, "messages": messages}).json()
    messages += [first["choices"][0]["message"], {"role": "user", "content": "go on"}]
    second = http.post("/v1/chat/completions", json={**HI, "messages": messages}).json()
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["prompt_tokens"] - 8


def test_a_key_opens_everything_but_health(tmp_path: Path, tiny_model: Path) -> None:
    key = "correct-horse-battery"
    with (
        serving(tmp_path, tiny_model, env={"LOCALSPEC_API_KEY": key}) as running,
        running.http() as http,
    ):
        assert http.get("/health").status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong-key-wrong"}, {"x-api-key": "none"}):
            assert http.get("/v1/models", headers=headers).status_code == 401
            assert http.post("/v1/chat/completions", json=HI, headers=headers).status_code == 401
        for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
            assert http.get("/v1/models", headers=headers).status_code == 200


def test_another_address_than_loopback_needs_a_key(tmp_path: Path, tiny_model: Path) -> None:
    with (
        pytest.raises(AssertionError, match="API key"),
        serving(tmp_path, tiny_model, "--host", "0.0.0.0"),
    ):
        pass


def test_a_page_that_was_allowed_may_ask(tmp_path: Path, tiny_model: Path) -> None:
    page = "https://app.example"
    with (
        serving(tmp_path, tiny_model, "--cors-origin", page) as running,
        running.http() as http,
    ):
        asked = {"origin": page, "access-control-request-method": "POST"}
        allowed = http.options("/v1/chat/completions", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == page
        answer = http.post("/v1/chat/completions", json=HI, headers={"origin": page})
        assert answer.headers["access-control-allow-origin"] == page
        foreign = http.post("/v1/chat/completions", json=HI, headers={"origin": "https://b.c"})
        assert foreign.status_code == 403
