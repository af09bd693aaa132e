"""Architecture names, as llama.cpp writes them, by what they are good for.

Facts of llama.cpp's src/llama-arch.cpp of the version this program is built on.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


GENERATORS = _names(
    """
    llama llama4 deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bloom stablelm qwen
    qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe qwen4exp
    phi2 phi3 phimoe plamo plamo2 plamo3 codeshell orion internlm2 minicpm minicpm3 gemma gemma2
    gemma3 gemma3n gemma4 starcoder2 mamba mamba2 maple jamba falcon-h1 xverse command-r cohere2
    cohere2moe dbrx olmo olmo2 olmoe muse-glimmer openelm arctic deepseek deepseek2 deepseek2-ocr
    deepseek32 deepseek4 chatglm glm4 glm4moe glm-dsa bitnet t5 jais jais2 nemotron nemotron_h
    nemotron_h_moe exaone exaone4 exaone-moe rwkv6 rwkv6qwen2 rwkv7 arwkv7 granite granitemoe
    granitehybrid graniteswitch granite_swa chameleon plm bailingmoe bailingmoe2 bailingmoe3 dots1
    dots3note arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl hy_v3
    hy_v4 smollm3 gpt-oss lfm2 lfm2moe dream smallthinker llada llada-moe seed_oss grovemoe apertus
    minimax-01 hrm_text minimax-m2 minimax-m3 cogvlm rnd1 pangu-embedded mistral3 mistral4 paddleocr
    mimo2 step35 spark2_5 maincoder kimi-linear kimi-k3 glm5-next talkie mellum nanbeige
    """
)
"""Models that produce text."""

EMBEDDERS = _names(
    """
    bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert
    gemma-embedding t5encoder llama-embed
    """
)
"""Models that turn text into vectors."""

HEADS = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Drafters that need the hidden states of their target."""

OTHERS = {
    "clip": "an image or audio projector",
    "wavtokenizer-dec": "a speech decoder",
    "pockettts": "a speech model",
    "qwen3tts": "a speech model",
    "clef": "an audio model",
}

RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Every layer keeps a state and none a cache (llm_arch_is_recurrent)."""

HYBRID = _names(
    """
    jamba falcon-h1 plamo2 granitehybrid lfm2 lfm2moe nemotron_h nemotron_h_moe qwen3next
    kimi-linear bailingmoe3 kimi-k3 glm5-next qwen35 qwen35moe qwen4exp deepseek4 minimax-01
    """
)
"""Some layers keep a state, others a cache (llm_arch_is_hybrid)."""

ROLLBACK = _names(
    """
    kimi-k3 qwen35 qwen35moe qwen4exp deepseek4 glm5-next nemotron_h nemotron_h_moe lfm2 lfm2moe
    bailingmoe3
    """
)
"""Recurrent states with rollback rows (llm_arch_supports_rs_rollback)."""
