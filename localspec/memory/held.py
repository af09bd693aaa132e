"""Architectures whose estimate the tests hold against llama.cpp's own figures."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HELD = _names(
    """
    llama qwen2 qwen3 qwen3moe gemma2 gemma3 gemma4 gpt-oss deepseek2 glm4moe qwen35 qwen35moe
    mamba2 lfm2 granite granitehybrid nemotron_h falcon-h1 olmo2 seed_oss smollm3 phi3
    muse-glimmer laguna
    """
)
"""Names as llama.cpp writes them. Others are planned by the same rules, as far as they apply."""
