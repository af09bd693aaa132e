"""`localspec serve` against llama-server, in turn: same file, same prompts, same machine.

    python scripts/measure_server.py ttft MODEL.gguf --llama-server PATH
    python scripts/measure_server.py throughput MODEL.gguf --llama-server PATH
    python scripts/measure_server.py prompts MODEL.gguf --llama-server PATH

ttft        seconds from a request to the first text of its answer, for a new conversation of about
            2,000 tokens and for its second turn
throughput  tokens a second of four streams at once, four slots, greedy: plain and with speculation
prompts     tokens of each turn that are evaluated and that are kept: true whatever else runs

Both servers run all the time, and each idles while the other is asked. Close other programs first:
two busy cores that share their work make every figure of time meaningless.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

SENTENCES = (
    "The harbour wakes before the town does.",
    "Nets are mended by hand on the stone quay, and nobody talks much.",
    "A boat called the Fair Margaret carries salt, rope and letters.",
    "On Tuesdays the lamp in the tower is cleaned with vinegar.",
    "The keeper writes down the wind, the tide and the ships that pass.",
    "Children sell mussels by the bucket to people from the city.",
)
ASKED = (
    "Write a Python class for a binary search tree with insert and find.",
    "Explain to a child why the sky is blue.",
    "Write a short story about a lighthouse keeper.",
    "List ten facts about the planet Jupiter, with a sentence on each.",
)
SPECULATIONS = ("none", "auto")


@dataclass(slots=True)
class Server:
    """One of the two."""

    name: str
    address: str


@dataclass(slots=True)
class Answer:
    first_s: float
    """Seconds to the first text."""
    whole_s: float
    text: str
    tokens: int
    timings: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["ttft", "throughput", "prompts"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--llama-server", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=0, help="0 takes the physical cores")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    options = parser.parse_args()
    measure = {"ttft": _ttft, "throughput": _throughput, "prompts": _prompts}[options.what]
    slots = 4 if options.what == "throughput" else 1
    with tempfile.TemporaryDirectory() as folder, _both(options, slots, Path(folder)) as servers:
        measure(servers, options)


def _ttft(servers: list[Server], options: argparse.Namespace) -> None:
    found: dict[str, list[tuple[float, float]]] = {server.name: [] for server in servers}
    for repeat in range(options.repeats + 1):
        for server in _in_turn(servers, repeat):
            first, second = _two_turns(server, repeat, options.tokens)
            # The first conversation of each warms caches and pages up.
            if repeat:
                found[server.name].append((first.first_s, second.first_s))
    for turn, name in enumerate(("first turn", "second turn")):
        ours = [pair[turn] for pair in found["localspec"]]
        theirs = [pair[turn] for pair in found["llama-server"]]
        _compare(f"{name}, ms to the first text", ours, theirs, 1000)


def _prompts(servers: list[Server], options: argparse.Namespace) -> None:
    for repeat in range(2):
        for server in servers:
            for turn, answer in enumerate(_two_turns(server, repeat, options.tokens), 1):
                timings = answer.timings
                print(
                    f"conversation {repeat + 1}, turn {turn}, {server.name:12} "
                    f"evaluated {timings['prompt_n']:5}, kept {timings['cache_n']:5}, "
                    f"answered {answer.tokens}"
                )


def _throughput(servers: list[Server], options: argparse.Namespace) -> None:
    for speculation in SPECULATIONS:
        found: dict[str, list[float]] = {server.name: [] for server in servers}
        for repeat in range(options.repeats + 1):
            for server in _in_turn(servers, repeat):
                speed = _four_streams(server, speculation, options.tokens)
                if repeat:
                    found[server.name].append(speed)
        _compare(f"4 streams, {speculation} drafting in ours, tokens/s", found["localspec"],
                 found["llama-server"], 1)  # fmt: skip


def _in_turn(servers: list[Server], repeat: int) -> list[Server]:
    """ABBA: who is asked second finds a warmer machine."""
    return servers if repeat % 2 == 0 else servers[::-1]


def _compare(what: str, ours: list[float], theirs: list[float], scale: float) -> None:
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    a, b = statistics.median(ours) * scale, statistics.median(theirs) * scale
    print(f"{what}: localspec {a:.1f}, llama-server {b:.1f}, ratio {ratio:.3f} "
          f"(median of {len(ours)} pairs)")  # fmt: skip


def _two_turns(server: Server, seed: int, n_tokens: int) -> tuple[Answer, Answer]:
    """A conversation about a long text that nobody has asked about before, and its next turn."""
    story = " ".join(
        f"{number}. {SENTENCES[(number * (seed + 3) + seed) % len(SENTENCES)]}"
        for number in range(100 * (seed + 1), 100 * (seed + 1) + 118)
    )
    messages = [{"role": "user", "content": f"{story}\n\nTell me about the harbour."}]
    body = {"messages": messages, "max_tokens": n_tokens, "temperature": 0}
    if server.name == "localspec":
        body["speculation"] = {"draft": "none"}
    first = _ask(server, body)
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "And who cleans the lamp?"},
    ]
    return first, _ask(server, {**body, "messages": messages, "max_tokens": 16})


def _four_streams(server: Server, speculation: str, n_tokens: int) -> float:
    """Tokens a second of all streams together, prompts included."""
    extra = {"speculation": {"draft": speculation}} if server.name == "localspec" else {}
    bodies = [
        {
            "messages": [{"role": "user", "content": asked}],
            "max_tokens": n_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
            **extra,
        }
        for asked in ASKED
    ]
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = list(pool.map(lambda body: _ask(server, body), bodies))
    return sum(answer.tokens for answer in answers) / (time.perf_counter() - begun)


def _ask(server: Server, body: dict[str, Any]) -> Answer:
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    text, tokens, timings = "", 0, {}
    first_s = 0.0
    begun = time.perf_counter()
    with httpx.stream(
        "POST", f"{server.address}/v1/chat/completions", json=asked, timeout=600
    ) as response:
        if response.status_code != 200:
            response.read()
            raise SystemExit(f"{server.name} refused: {response.text[:500]}")
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            timings = chunk.get("timings") or timings
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
            delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
            piece = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
            if piece and not text:
                first_s = time.perf_counter() - begun
            text += piece
    return Answer(first_s, time.perf_counter() - begun, text, tokens, timings)


@contextlib.contextmanager
def _both(options: argparse.Namespace, slots: int, folder: Path) -> Iterator[list[Server]]:
    from localspec.engine.threads import default_threads

    threads = str(options.threads or default_threads())
    with contextlib.ExitStack() as stack:
        servers = []
        for name, command in (
            (
                "localspec",
                [
                    sys.executable, "-m", "localspec", "serve", str(options.model),
                    "--ctx", "8192", "--slots", str(slots), "--threads", threads, "--quiet",
                ],
            ),
            (
                "llama-server",
                [
                    str(options.llama_server), "-m", str(options.model), "--ctx-size",
                    str(8192 * slots), "-np", str(slots), "--threads", threads, "--no-webui",
                    "--offline",
                ],
            ),
        ):  # fmt: skip
            port = _free_port()
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [*command, "--port", str(port)],
                stdout=log,
                stderr=log,
                env={**os.environ, "LOCALSPEC_HOME": str(folder / "home")},
            )
            stack.callback(_end, process)
            servers.append(Server(name, f"http://127.0.0.1:{port}"))
            _wait(servers[-1], process, folder / f"{name}.log")
        yield servers


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{server.address}/health").status_code == 200:
                return
        time.sleep(0.1)
    raise SystemExit(f"{server.name} ended: {log.read_text(errors='replace')[-1000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
