"""What an answer cost: usage as OpenAI has it, timings as llama-server, and speculation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localspec import __version__
from localspec.events import Answer

FINGERPRINT = f"localspec-{__version__}"
"""`system_fingerprint` of every answer."""


def usage_of(answers: Sequence[Answer]) -> dict[str, Any]:
    """The prompt counts once, however many answers it got."""
    first = answers[0]
    completion = sum(answer.completion_tokens for answer in answers)
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": first.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": first.cached_tokens},
    }


def timings_of(answer: Answer) -> dict[str, Any]:
    """llama-server's names. `predicted_*` is about the tokens after the first, which belongs to
    the prompt's pass."""
    timings = answer.timings
    return {
        "cache_n": answer.cached_tokens,
        "prompt_n": timings.prompt_tokens,
        "prompt_ms": _ms(timings.prompt_s),
        "prompt_per_token_ms": _ms(_ratio(timings.prompt_s, timings.prompt_tokens)),
        "prompt_per_second": round(timings.prompt_tokens_per_second, 3),
        "predicted_n": answer.completion_tokens,
        "predicted_ms": _ms(timings.decode_s),
        "predicted_per_token_ms": _ms(_ratio(timings.decode_s, timings.decode_tokens)),
        "predicted_per_second": round(timings.decode_tokens_per_second, 3),
        "draft_n": answer.speculation.drafted,
        "draft_n_accepted": answer.speculation.accepted,
    }


def speculation_of(answer: Answer) -> dict[str, Any]:
    """The `speculation` object of `run --json`."""
    done = answer.speculation
    return {
        "method": done.method,
        "rounds": done.rounds,
        "drafted": done.drafted,
        "accepted": done.accepted,
        "acceptance_rate": round(done.acceptance_rate, 4),
        "tokens_per_round": round(done.tokens_per_round, 3),
        "accepted_per_position": list(done.accepted_per_position),
        "propose_ms": _ms(done.propose_s),
        "verify_ms": _ms(done.verify_s),
        "by_drafter": {
            name: {"rounds": c.rounds, "drafted": c.drafted, "accepted": c.accepted}
            for name, c in done.by_drafter.items()
        },
    }


def speed_header(answers: Sequence[Answer]) -> dict[str, str]:
    """`x-tokens-per-second`: decoding speed of all answers together."""
    tokens = sum(answer.timings.decode_tokens for answer in answers)
    seconds = sum(answer.timings.decode_s for answer in answers)
    return {"x-tokens-per-second": f"{_ratio(tokens, seconds):.2f}"}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _ratio(value: float, by: float) -> float:
    return value / by if by else 0.0
