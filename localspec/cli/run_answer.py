"""One answer as a report: the document of `run --json`, and the line of `--stats`."""

from __future__ import annotations

from typing import Any

from localspec.events import Answer, Speculation
from localspec.units import format_duration, percent


def answer_document(answer: Answer) -> dict[str, Any]:
    """The JSON document of one answer; times in milliseconds. No thinking, no `thinking`."""
    timings, speculation = answer.timings, answer.speculation
    document: dict[str, Any] = {"model": answer.model, "text": answer.text}
    if answer.thinking:
        document["thinking"] = answer.thinking
    return document | {
        "tokens": list(answer.tokens),
        "finish_reason": answer.finish_reason,
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "cached_tokens": answer.cached_tokens,
        },
        "timings": {
            "load_ms": _ms(timings.load_s),
            "prompt_ms": _ms(timings.prompt_s),
            "decode_ms": _ms(timings.decode_s),
            "prompt_tokens_per_second": round(timings.prompt_tokens_per_second, 3),
            "decode_tokens_per_second": round(timings.decode_tokens_per_second, 3),
        },
        "speculation": {
            "method": speculation.method,
            "rounds": speculation.rounds,
            "drafted": speculation.drafted,
            "accepted": speculation.accepted,
            "acceptance_rate": round(speculation.acceptance_rate, 4),
            "tokens_per_round": round(speculation.tokens_per_round, 4),
            "accepted_per_position": list(speculation.accepted_per_position),
            "propose_ms": _ms(speculation.propose_s),
            "verify_ms": _ms(speculation.verify_s),
            "by_drafter": {
                name: {
                    "rounds": counts.rounds,
                    "drafted": counts.drafted,
                    "accepted": counts.accepted,
                }
                for name, counts in speculation.by_drafter.items()
            },
        },
    }


def stats_line(answer: Answer) -> str:
    """`256 tokens, 86.2 tok/s · 2.31 tokens per round · 141 of 187 draft tokens accepted …`"""
    timings = answer.timings
    parts = [f"{answer.completion_tokens} tokens"]
    if timings.decode_tokens:
        parts[0] += f", {timings.decode_tokens_per_second:.1f} tok/s"
    parts += speculation_parts(answer.speculation)
    prompt = f"prompt {answer.prompt_tokens} tokens"
    if answer.cached_tokens:
        prompt += f" ({answer.cached_tokens} reused)"
    parts.append(f"{prompt}, {format_duration(timings.prompt_s)}")
    if timings.load_s:
        parts.append(f"loaded in {format_duration(timings.load_s)}")
    ending = {
        "length": "ended by --max-tokens",
        "context": "ended by the context: --ctx",
        "cancelled": "interrupted",
    }.get(answer.finish_reason)
    if ending:
        parts.append(ending)
    return " · ".join(parts)


def speculation_parts(speculation: Speculation) -> list[str]:
    """Tokens per round and acceptance in words; by drafter where several drafted."""
    if speculation.method == "none":
        return ["plain decoding"]
    if not speculation.drafted:
        return ["nothing drafted"]
    parts = [
        f"{speculation.tokens_per_round:.2f} tokens per round",
        f"{speculation.accepted} of {speculation.drafted} draft tokens accepted "
        f"({percent(speculation.acceptance_rate)})",
    ]
    drafters = {name: c for name, c in speculation.by_drafter.items() if c.drafted}
    if len(drafters) > 1:
        shares = (f"{name} {c.accepted}/{c.drafted}" for name, c in drafters.items())
        parts[-1] += ": " + ", ".join(shares)
    elif drafters:
        parts[-1] += f" from {next(iter(drafters))}"
    return parts


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
