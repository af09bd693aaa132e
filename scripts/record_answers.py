"""Record plain answers to the prompts of `localspec bench`, to replay controllers over them.

    python scripts/record_answers.py TARGET.gguf OUT.jsonl [--draft DRAFT.gguf] [--tokens 256]

Greedy answers do not depend on speed, so this may run on a busy machine. Each line of OUT holds a
prompt's id and workload, the tokens of prompt and answer, and with `--draft` the draft model's
likeliest token at every place of the answer with its probability. `scripts/replay_controller.py`
reads the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from localspec.bench.workloads import BenchPrompt, load_workloads
from localspec.decoding.sampling import GREEDY
from localspec.engine.loading import load_target
from localspec.engine.questions import PromptOf, TokensOf
from localspec.engine.session import Session
from localspec.engine.settings import ChatMessage, EngineSettings, GenerateRequest, ModelSettings
from localspec.events import Answer
from localspec.llama import library
from localspec.llama.batch import Outputs
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import Context
from localspec.llama.log import NativeLog

_AT_A_TIME = 8
N_CTX = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    library.start()
    records = _answers(options.target, options.tokens, options.threads)
    if options.draft:
        _add_guesses(records, options.draft, options.threads)
    text = "".join(json.dumps(record) + "\n" for record in records)
    options.out.write_text(text, encoding="utf-8")


def _answers(target: Path, n_tokens: int, n_threads: int) -> list[dict[str, Any]]:
    """Several prompts at a time: with as many rows in a pass it is several times faster."""
    settings = EngineSettings(
        target=ModelSettings(target),
        method="none",
        n_ctx=N_CTX,
        n_slots=_AT_A_TIME,
        n_threads=n_threads,
    )
    session = Session(settings, NativeLog(), CancelFlag(), lambda event: None)
    waiting = [
        _Conversation(prompt) for workload in load_workloads() for prompt in workload.prompts
    ]
    done: dict[str, dict[str, Any]] = {}
    order = [conversation.prompt.id for conversation in waiting]
    running: dict[int, tuple[_Conversation, GenerateRequest]] = {}
    try:
        while waiting or running:
            while waiting and session.has_free_slot:
                conversation = waiting.pop(0)
                request = conversation.request(n_tokens)
                begun = session.begin(request, lambda event: None, lambda: False)
                running[id(begun)] = (conversation, request)
            for ended in session.step():
                conversation, request = running.pop(id(ended.running))
                answer = ended.result()
                conversation.texts.append(answer.text)
                if len(conversation.texts) < len(conversation.prompt.turns):
                    waiting.insert(0, conversation)
                else:
                    done[conversation.prompt.id] = _record(session, conversation, request, answer)
    finally:
        session.close()
    return [done[name] for name in order]


@dataclass(slots=True)
class _Conversation:
    prompt: BenchPrompt
    texts: list[str] = field(default_factory=list)
    """Answers so far."""

    def request(self, n_tokens: int) -> GenerateRequest:
        """The next turn, behind the earlier ones and their answers."""
        messages = [ChatMessage("user", self.prompt.turns[0])]
        for text, turn in zip(self.texts, self.prompt.turns[1:], strict=False):
            messages += [ChatMessage("assistant", text), ChatMessage("user", turn)]
        return GenerateRequest(messages=tuple(messages), sampling=GREEDY, max_tokens=n_tokens)


def _record(
    session: Session, conversation: _Conversation, request: GenerateRequest, answer: Answer
) -> dict[str, Any]:
    prompt = conversation.prompt
    tokens = session.ask(TokensOf(session.ask(PromptOf(request))))
    if len(tokens) != answer.prompt_tokens:
        sys.exit(f"{prompt.id}: {len(tokens)} tokens where the engine has {answer.prompt_tokens}")
    sys.stderr.write(f"{prompt.id}: {len(answer.tokens)} tokens\n")
    return {
        "name": prompt.id,
        "workload": prompt.workload,
        "prompt": tokens,
        "answer": list(answer.tokens),
    }


def _add_guesses(records: Sequence[dict[str, Any]], draft: Path, n_threads: int) -> None:
    settings = EngineSettings(
        target=ModelSettings(draft), method="none", n_ctx=N_CTX, n_threads=n_threads
    )
    loaded = load_target(settings, NativeLog(), CancelFlag(), lambda event: None)
    try:
        for record in records:
            loaded.context.clear()
            record["guesses"] = _guesses(loaded.context, record["prompt"], record["answer"])
            sys.stderr.write(f"{record['name']}: guessed\n")
    finally:
        loaded.close()


def _guesses(
    context: Context, prompt: Sequence[int], answer: Sequence[int]
) -> list[tuple[int, float]]:
    """For each token of `answer` the likeliest one behind everything before it, and its
    probability; several places in a pass."""
    context.evaluate(prompt[:-1], Outputs.NONE)
    before = [*prompt[-1:], *answer[:-1]]
    guesses: list[tuple[int, float]] = []
    for at in range(0, len(before), context.n_outputs_max):
        part = before[at : at + context.n_outputs_max]
        context.evaluate(part, Outputs.ALL)
        for row in context.logits[: len(part)]:
            token = int(row.argmax())
            guesses.append((token, round(1.0 / float(np.exp(row - row[token]).sum()), 4)))
    return guesses


if __name__ == "__main__":
    main()
