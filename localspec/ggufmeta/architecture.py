"""A typed view of a model: its layers, their heads, windows and states, from the header alone.

Rules read from llama.cpp (src/llama-model.cpp `load_hparams`, src/models/*.cpp
`load_arch_hparams`); each function names what it follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localspec.errors import BadModelFile
from localspec.ggufmeta.header import Header
from localspec.ggufmeta.known import HYBRID, RECURRENT, ROLLBACK
from localspec.ggufmeta.runnable import MAX_LAYERS
from localspec.ggufmeta.values import Array

SWA_PATTERNS: dict[str, tuple[int, bool]] = {
    "afmoe": (4, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone-moe": (4, False),
    "exaone4": (4, False),
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "laguna": (4, True),
    "llama4": (4, False),
    "mellum": (4, False),
    "muse-glimmer": (4, False),
    "olmo2": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
}
"""Every n-th layer sees everything, the others a window; True: the first of n, else the last."""
SWA_BY_LIST = frozenset({"gemma4", "granite_swa", "maple", "mimo2", "spark2_5", "step35"})
"""The header lists which layers slide."""
SWA_DEFAULTS = {"gemma2": 4096, "llama4": 8192}
SHARED_KV_DEFAULTS = {"gemma3n": 20}
"""Layers from the start that have a cache of their own; later ones read those."""
INTERVAL = frozenset({"qwen35", "qwen35moe", "qwen3next", "qwen4exp", "minimax-01"})
"""Hybrids whose every n-th layer attends (full_attention_interval, default 4)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of the model."""

    index: int
    n_head: int
    n_head_kv: int
    head_k: int
    """Elements of one key."""
    head_v: int
    n_rot: int
    n_ff: int
    is_swa: bool
    """Attends inside the sliding window only."""
    attends: bool
    """Has attention (and a KV cache, unless `reads_kv_of` is set)."""
    is_recurrent: bool
    """Keeps a recurrent state."""
    reads_kv_of: int | None = None
    """The earlier layer whose cache it shares."""
    is_nextn: bool = False
    """A next-token-prediction block after the trunk."""


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """Elements (f32) of the state of one recurrent layer and sequence."""

    conv: int
    state: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Everything the memory of a model depends on, besides its tensors."""

    name: str
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    layers: tuple[Layer, ...]
    """Trunk first, then `n_nextn` next-token-prediction blocks."""
    n_nextn: int
    n_swa: int
    """Width of the sliding window; 0 when no layer has one."""
    is_mla: bool
    """K and V come from one latent row: only K is cached."""
    n_expert: int
    n_expert_used: int
    n_ff_exp: int
    recurrent: RecurrentState | None
    supports_rollback: bool
    """Its states have rollback rows; always true without states."""
    has_rope: bool
    """Queries and keys are turned by position."""
    chat_template: str | None
    tokenizer: str
    """`gpt2`, `llama`, `gemma4`."""

    @property
    def n_layer(self) -> int:
        """Blocks of the trunk."""
        return len(self.layers) - self.n_nextn

    @property
    def trunk(self) -> tuple[Layer, ...]:
        return self.layers[: self.n_layer]

    @property
    def has_state(self) -> bool:
        return any(layer.is_recurrent for layer in self.layers)


def read_architecture(header: Header) -> Architecture:
    """The typed view of a header. Raises BadModelFile for a number that is missing or absurd."""
    reader = _Keys(header)
    name = header.architecture
    n_all = reader.need("block_count", 1, MAX_LAYERS)
    n_nextn = reader.get("nextn_predict_layers", 0, most=n_all)
    n_embd = reader.need("embedding_length", 1, 1 << 20)
    heads = reader.per_layer("attention.head_count", n_all, [0] * n_all)
    heads_kv = reader.per_layer("attention.head_count_kv", n_all, heads)
    n_ff = reader.per_layer("feed_forward_length", n_all, [0] * n_all)
    width = n_embd // heads[0] if heads[0] else 0
    head_k = reader.get("attention.key_length", width) if heads[0] else 0
    head_v = reader.get("attention.value_length", width) if heads[0] else 0
    swa_k, swa_v = (
        reader.get("attention.key_length_swa", head_k),
        reader.get("attention.value_length_swa", head_v),
    )
    rot = reader.get("rope.dimension_count", head_k)
    rot_swa = reader.get("rope.dimension_count_swa", rot)
    n_trunk = n_all - n_nextn
    n_swa, sliding = _sliding(reader, name, n_all, n_trunk, heads_kv)
    recurrent = _recurrent_layers(reader, name, n_all, n_trunk, heads_kv, n_ff)
    shared_from = _shared_from(reader, name, n_all)
    layers: list[Layer] = []
    for i in range(n_all):
        swa = sliding[i]
        layers.append(
            Layer(
                index=i,
                n_head=heads[i],
                n_head_kv=heads_kv[i],
                head_k=swa_k if swa else head_k,
                head_v=swa_v if swa else head_v,
                n_rot=rot_swa if swa else rot,
                n_ff=n_ff[i],
                is_swa=swa,
                attends=_attends(name, recurrent[i], heads_kv[i], n_ff[i]),
                is_recurrent=recurrent[i],
                reads_kv_of=shared_from - (2 if swa else 1) if i >= shared_from else None,
                is_nextn=i >= n_trunk,
            )
        )
    tokens = header.array("tokenizer.ggml.tokens")
    template = header.metadata.get("tokenizer.chat_template")
    return Architecture(
        name=name,
        n_embd=n_embd,
        n_vocab=tokens.count if tokens else reader.get("vocab_size", 0),
        n_ctx_train=reader.get("context_length", 0),
        layers=tuple(layers),
        n_nextn=n_nextn,
        n_swa=n_swa if any(sliding) else 0,
        is_mla=bool(reader.get("attention.key_length_mla", 0)),
        n_expert=reader.get("expert_count", 0),
        n_expert_used=max(reader.per_layer("expert_used_count", n_all, [0])),
        n_ff_exp=max(reader.per_layer("expert_feed_forward_length", n_all, [0])),
        recurrent=_state(reader, n_embd, heads[0]) if any(recurrent) else None,
        supports_rollback=not any(recurrent) or name in ROLLBACK,
        has_rope=_has_rope(header, name),
        chat_template=template if isinstance(template, str) else None,
        tokenizer=str(header.metadata.get("tokenizer.ggml.model", "")),
    )


class _Keys:
    """Numbers of one header, checked."""

    def __init__(self, header: Header) -> None:
        self.header = header

    def get(self, key: str, default: int, *, most: int = 1 << 31) -> int:
        found = self.header.whole(key)
        if found is None:
            return default
        if not 0 <= found <= most:
            raise BadModelFile(f"{self.header.name} claims {key} = {found}")
        return found

    def need(self, key: str, least: int, most: int) -> int:
        found = self.header.whole(key)
        if found is None or not least <= found <= most:
            shown = "nothing" if found is None else found
            raise BadModelFile(
                f"{self.header.name} claims {key} = {shown}, between {least} and {most} work"
            )
        return found

    def per_layer(self, key: str, n: int, default: list[int]) -> list[int]:
        """One number per layer: an array, or one number for all (`get_key_or_arr`)."""
        found: Any = self.header.own(key)
        if found is None:
            return default
        if isinstance(found, Array):
            if found.is_strings or found.count < n:
                raise BadModelFile(
                    f"{self.header.name} has {found.count} values of {key} for {n} layers"
                )
            numbers = [int(value) for value in found.numbers()[:n]]
        elif isinstance(found, int | float):
            numbers = [int(found)] * n
        else:
            raise BadModelFile(f"{self.header.name} claims {key} = {found!r}")
        if min(numbers) < 0 or max(numbers) > 1 << 31:
            raise BadModelFile(f"{self.header.name} claims {key} = {numbers}")
        return numbers


def _sliding(
    keys: _Keys, name: str, n_all: int, n_trunk: int, heads_kv: list[int]
) -> tuple[int, list[bool]]:
    # llama-model.cpp load_swa_pattern and llama-hparams.cpp set_swa_pattern.
    none = [False] * n_all
    window = keys.get("attention.sliding_window", SWA_DEFAULTS.get(name, 0))
    if name == "exaone4" and n_all - keys.get("nextn_predict_layers", 0) != 64:
        return 0, none
    if window == 0:
        return 0, none
    if name == "llama4":
        window = 8192
    if name in ("lfm2", "lfm2moe"):
        return window, [count > 0 for count in heads_kv]
    if name == "deepseek4":
        return window, [True] * n_all
    pattern, dense_first = SWA_PATTERNS.get(name, (0, False))
    if not pattern and name not in SWA_BY_LIST:
        return 0, none
    listed = keys.header.own("attention.sliding_window_pattern")
    if isinstance(listed, Array):
        if listed.is_strings or listed.count < n_trunk:
            raise BadModelFile(
                f"{keys.header.name} lists {listed.count} sliding layers for {n_all} layers"
            )
        flags = [bool(value) for value in listed.numbers()[:n_all]]
        return window, flags + [False] * (n_all - len(flags))
    if name in SWA_BY_LIST and not isinstance(listed, int):
        raise BadModelFile(f"{keys.header.name} does not say which of its layers slide")
    if isinstance(listed, int):
        pattern = listed
    if pattern == 0:
        return window, [i < n_trunk for i in range(n_all)]
    kept = 0 if dense_first else pattern - 1
    return window, [i < n_trunk and i % pattern != kept for i in range(n_all)]


def _recurrent_layers(
    keys: _Keys, name: str, n_all: int, n_trunk: int, heads_kv: list[int], n_ff: list[int]
) -> list[bool]:
    if name in RECURRENT or name == "falcon-h1":
        return [True] * n_all
    if name not in HYBRID or name == "deepseek4":
        return [False] * n_all
    if name in INTERVAL:
        if listed := keys.per_layer("attention.recurrent_layers", n_all, []):
            return [value != 0 for value in listed]
        interval = max(1, keys.get("full_attention_interval", 4))
        return [i < n_trunk and (i + 1) % interval != 0 for i in range(n_all)]
    if name.startswith("nemotron_h"):
        return [i < n_trunk and heads_kv[i] == 0 and n_ff[i] == 0 for i in range(n_all)]
    return [i < n_trunk and heads_kv[i] == 0 for i in range(n_all)]


def _attends(name: str, recurrent: bool, n_head_kv: int, n_ff: int) -> bool:
    # llama-model.cpp create_memory: the layer filters of the hybrid memories.
    if name in RECURRENT:
        return False
    if name == "falcon-h1":
        return True
    if name.startswith("nemotron_h") and n_ff > 0:
        return False
    return not recurrent and n_head_kv > 0


def _has_rope(header: Header, name: str) -> bool:
    # llama-model.cpp llama_model_rope_type; granite-hybrid.cpp reads the switch from the header.
    if name in ("jamba", "nemotron_h", "nemotron_h_moe", "gpt2", "bloom", "mpt", "refact"):
        return False
    return name != "granitehybrid" or bool(header.own("rope.scaling.finetuned", True))


def _shared_from(keys: _Keys, name: str, n_all: int) -> int:
    # gemma3n.cpp, gemma4.cpp: n_layer_kv_from_start.
    if name == "gemma4":
        return n_all - keys.get("attention.shared_kv_layers", 0, most=n_all)
    return SHARED_KV_DEFAULTS.get(name, n_all)


def _state(keys: _Keys, n_embd: int, n_head: int) -> RecurrentState:
    # llama-hparams.cpp n_embd_r and n_embd_s.
    if wkv := keys.get("wkv.head_size", 0):
        shifts = keys.get("token_shift_count", 2)
        return RecurrentState(shifts * n_embd, n_embd * wkv)
    d_state, d_inner = keys.get("ssm.state_size", 0), keys.get("ssm.inner_size", 0)
    if cache := keys.get("shortconv.l_cache", 0):
        return RecurrentState(n_embd * (cache - 1), d_state * d_inner)
    d_conv = keys.get("ssm.conv_kernel", 0)
    if kda := keys.get("kda.head_dim", 0):
        return RecurrentState(3 * (d_conv - 1 if d_conv else 3) * n_head * kda, kda * kda * n_head)
    conv = max(0, d_conv - 1) * (d_inner + 2 * keys.get("ssm.group_count", 0) * d_state)
    return RecurrentState(conv, d_state * d_inner)
