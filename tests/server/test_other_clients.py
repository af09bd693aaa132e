"""Clients that people use beside the official one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving import RunningServer

pytestmark = pytest.mark.engine


def run(code: str, server: RunningServer, home: Path, *arguments: str) -> str:
    """Output of a client in a process of its own: these libraries patch what they import."""
    done = subprocess.run(
        [sys.executable, *(["-c", code] if code else []), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "BASE": server.base_url,
            "LLM_USER_PATH": str(home),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            "LANGSMITH_TRACING": "false",
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_litellm(server: RunningServer, tmp_path: Path) -> None:
    code = """
import json, os, litellm
ask = dict(model="openai/tiny", api_base=os.environ["BASE"], api_key="none", max_tokens=4,
           messages=[{"role": "user", "content": "hi"}])
answer = litellm.completion(**ask)
pieces = [c.choices[0].delta.content or "" for c in litellm.completion(**ask, stream=True)]
print(json.dumps([answer.usage.completion_tokens, len(pieces)]))
"""
    tokens, pieces = json.loads(run(code, server, tmp_path).strip().splitlines()[-1])
    assert 1 <= tokens <= 4
    assert pieces >= 1


def test_langchain(server: RunningServer, tmp_path: Path) -> None:
    code = """
import json, os
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

@tool
def add(a: int, b: int) -> int:
    "Add two numbers"
    return a + b

class Person(BaseModel):
    name: str = Field(max_length=6)
    age: int = Field(ge=0, le=99)

chat = ChatOpenAI(model="tiny", base_url=os.environ["BASE"], api_key="none", max_tokens=400)
calls = chat.bind_tools([add], tool_choice="required", parallel_tool_calls=False).invoke("2+2?")
person = chat.with_structured_output(Person, method="json_schema").invoke("who?")
streamed = len(list(chat.bind(max_tokens=4).stream("hi")))
print(json.dumps([calls.tool_calls[0]["name"], sorted(calls.tool_calls[0]["args"]), person.age,
                  streamed]))
"""
    name, arguments, age, streamed = json.loads(run(code, server, tmp_path).splitlines()[-1])
    assert name == "add"
    assert arguments == ["a", "b"]
    assert 0 <= age <= 99
    assert streamed >= 1


def test_the_llm_command(server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: local\n  model_name: tiny\n  api_base: {server.base_url}\n", encoding="utf-8"
    )
    said = run("", server, tmp_path, "-m", "llm", "-m", "local", "-o", "max_tokens", "4", "hi",
               "--key", "none")  # fmt: skip
    assert said.strip()
