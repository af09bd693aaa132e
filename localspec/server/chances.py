"""Log probabilities of tokens, in the two shapes the API has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localspec.events import TokenChance


def chat_logprobs(chances: Sequence[TokenChance]) -> dict[str, Any] | None:
    """As chat completions have them; None where there are none."""
    return {"content": token_logprobs(chances), "refusal": None} if chances else None


def token_logprobs(chances: Sequence[TokenChance]) -> list[dict[str, Any]]:
    """One entry for each token, as chat completions and responses have them."""
    content = []
    for chance in chances:
        top = [_token(piece, logprob) for _, piece, logprob in chance.top]
        content.append({**_token(chance.piece, chance.logprob), "top_logprobs": top})
    return content


def text_logprobs(chances: Sequence[TokenChance], offset: int) -> dict[str, Any]:
    """As completions have them. offset: characters of text before the first token."""
    found: dict[str, list[Any]] = {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }
    for chance in chances:
        text = _text(chance.piece)
        found["tokens"].append(text)
        found["token_logprobs"].append(chance.logprob)
        found["top_logprobs"].append({_text(piece): value for _, piece, value in chance.top})
        found["text_offset"].append(offset)
        offset += len(text)
    return found


def _token(piece: bytes, logprob: float) -> dict[str, Any]:
    return {"token": _text(piece), "logprob": logprob, "bytes": list(piece)}


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")
