"""Figures of the engine on this machine, as ratios within one run.

    python scripts/measure_engine.py plain MODEL.gguf --llama-bench PATH
    python scripts/measure_engine.py speculation TARGET.gguf [--draft DRAFT.gguf]
    python scripts/measure_engine.py share MODEL.gguf

plain        decoding against llama.cpp's own llama-bench, in turn, same file and threads
once         our half of that: one process, warmed up, tokens per second
speculation  every drafter against plain decoding on a few prompts, in turn, fresh caches
share        Python's share of a round with the n-gram drafter, at growing contexts
Close other programs first: two busy cores that share their work make every figure meaningless.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from llama_cpp import llama_cpp

from localspec.decoding.sampling import GREEDY
from localspec.engine import huge_pages
from localspec.engine.questions import TokensOf
from localspec.engine.session import Session
from localspec.engine.settings import ChatMessage, EngineSettings, GenerateRequest, ModelSettings
from localspec.engine.threads import default_threads
from localspec.llama import library
from localspec.llama.cancel import CancelFlag
from localspec.llama.log import NativeLog

RECORDS = "\n".join(
    f'{{"id": {number}, "name": "{name}", "age": {age}}}'
    for number, (name, age) in enumerate(
        [("Alice", 30), ("Bob", 25), ("Carol", 41), ("Dave", 37), ("Eve", 29), ("Frank", 52)], 1
    )
)
PROMPTS = {
    "code": "Write a Python class for a binary search tree with insert, find and delete methods, "
    "with type hints and docstrings.",
    "code 2": "Write a binary search tree class in Python.",
    "code 3": "Write a Python class that implements a binary search tree.",
    "edit": 'Add a field "city": "Paris" to every record of this JSON and print the whole JSON:\n'
    + RECORDS,
    "edit 2": 'Add the field "email" to each of these JSON records:\n' + RECORDS,
    "chat": "Why is the sky blue?",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["plain", "once", "speculation", "share"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--llama-bench", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    options = parser.parse_args()
    if options.what == "plain":
        _plain(options)
        return
    _start_like_the_engine()
    session = _session(options.model, options.draft)
    try:
        if options.what == "once":
            _once(session, options.tokens)
        elif options.what == "speculation":
            _speculation(session, options)
        else:
            _share(session)
    finally:
        session.close()


def _start_like_the_engine() -> None:
    """Once more as a process that asks for huge pages, as the engine's own is started."""
    before = dict(os.environ)
    with huge_pages.asked_for():
        if dict(os.environ) != before:
            os.execv(sys.executable, [sys.executable, *sys.argv])


def _session(model: Path, draft: Path | None) -> Session:
    log = NativeLog()
    library.start()
    settings = EngineSettings(
        target=ModelSettings(model),
        draft=ModelSettings(draft) if draft else None,
        method="auto",
        n_ctx=8192,
    )
    return Session(settings, log, CancelFlag(), lambda event: None)


def _decode(session: Session, request: GenerateRequest) -> tuple[float, tuple[int, ...]]:
    answer = session.generate(request, lambda event: None)
    return answer.timings.decode_tokens_per_second, answer.tokens


def _plain(options: argparse.Namespace) -> None:
    """Pairs of processes, ours and theirs in turn.

    Where a process happens to get its memory moves its speed by several percent for as long as it
    lives, so that many answers of one process would compare two such accidents.
    """
    command = [sys.executable, __file__, "once", str(options.model), "--tokens"]
    command += [str(options.tokens)]
    ours, theirs = [], []
    for repeat in range(options.repeats):
        for is_ours in (repeat % 2 == 0, repeat % 2 == 1):
            if is_ours:
                found = subprocess.run(command, capture_output=True, check=True, text=True)
                ours.append(float(found.stdout))
            else:
                theirs.append(_llama_bench(options.llama_bench, options.model, options.tokens))
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    quarter = len(ratios) // 4
    print(f"llama-bench {statistics.median(theirs):.1f} tok/s, ours {statistics.median(ours):.1f}")
    print(
        f"ratio {statistics.median(ratios):.3f}, median of {options.repeats} pairs; half of them "
        f"between {ratios[quarter]:.3f} and {ratios[-1 - quarter]:.3f}"
    )


def _once(session: Session, n_tokens: int) -> None:
    """llama-bench warms up, then decodes random tokens behind an empty context; so does this."""
    request = GenerateRequest(
        prompt_tokens=(1,),
        sampling=GREEDY,
        max_tokens=n_tokens,
        method="none",
        fresh_caches=True,
        ignore_end=True,
    )
    for _ in range(2):
        speed, _ = _decode(session, request)
    print(speed)


def _llama_bench(binary: Path, model: Path, tokens: int) -> float:
    command = [str(binary), "-m", str(model), "-p", "0", "-n", str(tokens), "-r", "1", "-o", "json"]
    command += ["-t", str(default_threads())]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(json.loads(found.stdout)[0]["avg_ts"])


def _speculation(session: Session, options: argparse.Namespace) -> None:
    methods = ["none", "ngram", *(["model"] if options.draft else []), "auto"]
    for name, prompt in PROMPTS.items():
        speeds: dict[str, list[float]] = {method: [] for method in methods}
        texts: dict[str, tuple[int, ...]] = {}
        for _ in range(options.repeats):
            for method in methods:
                request = GenerateRequest(
                    messages=(ChatMessage("user", prompt),),
                    sampling=GREEDY,
                    max_tokens=options.tokens,
                    method=method,
                    fresh_caches=True,
                )
                speed, texts[method] = _decode(session, request)
                speeds[method].append(speed)
        line = [f"{name:8} plain {statistics.median(speeds['none']):6.1f} tok/s"]
        for method in methods[1:]:
            pairs = zip(speeds[method], speeds["none"], strict=True)
            gain = statistics.median(a / b for a, b in pairs)
            same = "same" if texts[method] == texts["none"] else "DIFFERENT"
            line.append(f"{method} {gain:.2f}x {same}")
        print(" · ".join(line), flush=True)


def _share(session: Session) -> None:
    """Everything outside llama_decode, as a share of the time of a round."""
    inside = 0.0
    decode = llama_cpp.llama_decode

    def timed(*arguments: object) -> int:
        nonlocal inside
        begun = time.perf_counter()
        code = int(decode(*arguments))
        inside += time.perf_counter() - begun
        return code

    llama_cpp.llama_decode = timed
    text = Path(__file__).read_text("utf-8") * 4
    tokens = session.ask(TokensOf(text, parse_special=False))
    for n_context in (500, 1000, 2000, 4000):
        request = GenerateRequest(
            prompt_tokens=tuple(tokens[:n_context]),
            sampling=GREEDY,
            max_tokens=192,
            method="ngram",
            fresh_caches=True,
            ignore_end=True,
        )
        session.generate(request, lambda event: None)
        inside = 0.0
        # The prompt is in memory now: one token of it is evaluated again, then come the rounds.
        answer = session.generate(_without_fresh(request), lambda event: None)
        whole = answer.timings.prompt_s + answer.timings.decode_s
        rounds = answer.speculation.rounds
        print(
            f"{n_context} tokens of context: {rounds} rounds, "
            f"{answer.speculation.tokens_per_round:.2f} tokens per round, "
            f"{1000 * inside / rounds:.2f} ms in llama_decode, "
            f"{1000 * (whole - inside) / rounds:.3f} ms outside: {(whole - inside) / whole:.2%}",
            flush=True,
        )


def _without_fresh(request: GenerateRequest) -> GenerateRequest:
    return GenerateRequest(
        prompt_tokens=request.prompt_tokens,
        sampling=request.sampling,
        max_tokens=request.max_tokens,
        method=request.method,
        ignore_end=True,
    )


if __name__ == "__main__":
    main()
