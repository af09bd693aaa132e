"""Clients that hang up, engines that die, and a server that is asked to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.serving import RunningServer, serving
from tests.support.tiny_gguf import write_tiny

pytestmark = pytest.mark.engine

HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
ENDLESS = {**HI, "max_tokens": 3000, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the other tests' model, but so deep that an answer of thousands of tokens takes seconds:
    what happens in its middle must not hang on how fast this machine is."""
    path = tmp_path_factory.mktemp("deep") / "tiny.gguf"
    return write_tiny(path, "llama", n_layer=24, n_ctx_train=4096)


def running_now(http: httpx.Client) -> int:
    lines = http.get("/metrics").text.splitlines()
    names = ("localspec_requests_running{", "localspec_requests_waiting{")
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


def until_idle(http: httpx.Client) -> None:
    for _ in range(300):
        if running_now(http) == 0:
            return
        time.sleep(0.05)
    raise AssertionError("a slot was not given back")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_frees_its_slot(
    tmp_path: Path, tiny_model: Path, stream: bool
) -> None:
    with serving(tmp_path, tiny_model, "--threads", "1") as running, running.http() as http:
        body = {**ENDLESS, "stream": stream}
        if stream:
            with http.stream("POST", "/v1/chat/completions", json=body) as response:
                lines = response.iter_lines()  # kept: a forgotten iterator hangs up
                next(lines)
                assert running_now(http) == 1
        else:
            with pytest.raises(httpx.ReadTimeout):
                http.post("/v1/chat/completions", json=body, timeout=0.5)
        until_idle(http)
        answered = http.post("/v1/chat/completions", json=HI)
        assert answered.status_code == 200


def engine_of(running: RunningServer) -> psutil.Process:
    """The child that holds the model: multiprocessing's resource tracker is one as well."""
    children = psutil.Process(running.process.pid).children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss)


def test_a_crash_of_the_engine_fails_its_request_and_no_later_one(
    tmp_path: Path, tiny_model: Path
) -> None:
    with serving(tmp_path, tiny_model, "--threads", "1") as running, running.http() as http:
        with http.stream("POST", "/v1/chat/completions", json=ENDLESS) as response:
            lines = response.iter_lines()
            next(lines)
            engine_of(running).kill()
            rest = [line for line in lines if line.startswith("data: {")]
        error = json.loads(rest[-1].removeprefix("data: "))["error"]
        assert error["type"] == "server_error"
        assert "localspec-" not in json.dumps(error), "the log's path is nobody's business"
        assert http.post("/v1/chat/completions", json=HI).status_code == 200
        whole: dict[str, Any] = {}

        def ask() -> None:
            response = http.post("/v1/chat/completions", json={**ENDLESS, "stream": False})
            whole["status"] = response.status_code

        asking = threading.Thread(target=ask)
        asking.start()
        while running_now(http) == 0:
            time.sleep(0.01)
        engine_of(running).kill()
        asking.join(30)
        assert whole["status"] == 500
        assert http.post("/v1/chat/completions", json=HI).status_code == 200


def test_a_server_that_is_asked_to_stop_finishes_its_answers(
    tmp_path: Path, tiny_model: Path
) -> None:
    with serving(tmp_path, tiny_model, "--threads", "1") as running, running.http() as http:
        body = {**ENDLESS, "max_tokens": 300}
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            children = psutil.Process(running.process.pid).children(recursive=True)
            running.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        finish = [json.loads(line[6:]) for line in rest if line.startswith("data: {")][-1]
        assert finish["choices"][0]["finish_reason"] == "length"
        assert running.process.wait(30) in (0, -signal.SIGTERM)
        _, alive = psutil.wait_procs(children, 10)
        assert not alive, "an engine outlived its server"


def test_two_models_are_served_and_one_that_cannot_be_loaded_is_a_503(
    tmp_path: Path, tiny_model: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_model.read_bytes()[:5000])
    with (
        serving(tmp_path, tiny_model, broken, "--threads", "1") as running,
        running.http() as http,
    ):
        assert running.models == ["tiny", "broken"]
        failed = http.post("/v1/chat/completions", json={**HI, "model": "broken"})
        assert failed.status_code == 503
        assert str(tmp_path) not in failed.text
        assert http.post("/v1/chat/completions", json={**HI, "model": "tiny"}).status_code == 200


def test_a_full_queue_answers_429_and_says_when_to_come_again(
    tmp_path: Path, tiny_model: Path
) -> None:
    with (
        serving(tmp_path, tiny_model, "--threads", "1", "--max-waiting", "0") as running,
        running.http() as http,
        http.stream("POST", "/v1/chat/completions", json=ENDLESS) as response,
    ):
        lines = response.iter_lines()  # kept: a forgotten iterator hangs up
        next(lines)
        refused = http.post("/v1/chat/completions", json=HI)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert http.get("/health").status_code == 200


def test_a_model_that_does_not_fit_is_told_before_it_is_loaded(
    tmp_path: Path, tiny_model: Path
) -> None:
    with (
        pytest.raises(AssertionError, match="DoesNotFit"),
        serving(tmp_path, tiny_model, "--ctx", "900000k"),
    ):
        pass


def test_greedy_answers_at_1_2_and_4_slots_are_those_of_run(
    tmp_path: Path, tiny_model: Path
) -> None:
    prompts = ["the cat and the hat and the ", "one two three one two ", "a rose is a rose is "]
    options = ["--kv-type", "f32", "--flash-attn", "off", "--threads", "1", "--ctx", "512"]
    expected = []
    for prompt in prompts:
        done = subprocess.run(
            [
                sys.executable, "-m", "localspec", "run", str(tiny_model), prompt, "--json",
                "--temp", "0", "--max-tokens", "40", *options,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LOCALSPEC_HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        expected.append(json.loads(done.stdout)["text"])
    assert len(set(expected)) == len(prompts)
    for slots in (1, 2, 4):
        with serving(tmp_path, tiny_model, *options, "--slots", str(slots)) as running:
            assert asyncio.run(_ask_all(running, prompts)) == expected


async def _ask_all(running: RunningServer, prompts: list[str]) -> list[str]:
    async with httpx.AsyncClient(base_url=running.address, timeout=120) as http:

        async def ask(prompt: str) -> str:
            messages = [{"role": "user", "content": prompt}]
            body = {"messages": messages, "temperature": 0, "max_tokens": 40}
            answer = (await http.post("/v1/chat/completions", json=body)).json()
            text: str = answer["choices"][0]["message"]["content"]
            return text

        return await asyncio.gather(*map(ask, prompts))


def test_the_log_has_no_prompts_unless_asked(tmp_path: Path, tiny_model: Path) -> None:
    body = {"messages": [{"role": "user", "content": "a-very-secret-word"}], "max_tokens": 2}
    for options, is_told in (([], False), (["--log-prompts"], True)):
        with serving(tmp_path, tiny_model, "--threads", "1", *options) as running:
            with running.http() as http:
                assert http.post("/v1/chat/completions", json=body).status_code == 200
            running.stop()
            running.reader.join(10)
            log = "".join(running.log)
        assert ("a-very-secret-word" in log) == is_told
        assert "answered" in log
