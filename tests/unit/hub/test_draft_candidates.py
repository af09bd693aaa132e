"""What names tell of a model's family and size."""

from __future__ import annotations

import pytest

from localspec.hub.draft_candidates import DraftCandidate, family_of, parameters_of, rank


@pytest.mark.parametrize(
    ("name", "family", "parameters"),
    [
        ("Qwen_Qwen3-32B-Q4_K_M", "qwen3", 32e9),
        ("Qwen3-0.6B.Q4_K_M", "qwen3", 0.6e9),
        ("Qwen3.5-27B", "qwen3.5", 27e9),
        ("Llama-3.3-70B-Instruct.Q4_K_M", "llama-3", 70e9),
        ("Meta-Llama-3.1-8B-Instruct", "llama-3", 8e9),
        ("llama-3.2-1b-instruct-q8_0", "llama-3", 1e9),
        ("gemma-3-270m-it-qat-Q4_0", "gemma-3", 270e6),
        ("mistralai_Mistral-Small-3.1-24B-Instruct", "mistral", 24e9),
        ("SmolLM2-135M-Instruct Q4_1", "smollm2", 135e6),
        ("owner/name-GGUF/thing-Q8_0", "thing", None),
    ],
)
def test_family_and_parameters(name: str, family: str, parameters: float | None) -> None:
    assert family_of(name) == family
    assert parameters_of(name.rsplit("/", 1)[-1]) == parameters


def _candidate(name: str, ratio: float | None, speedup: float | None = None) -> DraftCandidate:
    return DraftCandidate(name, "draft", "disk", True, None, ratio, "identical", speedup)


def test_measured_then_small_then_large_then_unknown() -> None:
    candidates = [
        _candidate("unknown", None),
        _candidate("large", 0.5),
        _candidate("tiny", 0.01),
        _candidate("small", 0.19),
        _candidate("measured", 0.4, 1.3),
        _candidate("measured more", 0.5, 1.8),
    ]
    assert [c.name for c in sorted(candidates, key=rank)] == [
        "measured more",
        "measured",
        "tiny",
        "small",
        "large",
        "unknown",
    ]
