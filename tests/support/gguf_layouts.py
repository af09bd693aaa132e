"""Which keys and tensors a model of each architecture has, by its dimensions.

Shapes are in ggml's order: the first dimension is the contiguous one. Tiny models fill these
tensors with random weights (`tiny_gguf`); ghost files only describe them (`ghosts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Dims:
    """Dimensions of one model; `extra` has what only some architectures know."""

    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_vocab: int
    n_ctx_train: int
    tied: bool = False
    """The output matrix is the token embedding."""
    extra: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        return self.extra.get(name, default)


@dataclass(slots=True)
class Layout:
    """Metadata under the architecture's prefix, and tensors in file order."""

    arch: str
    keys: dict[str, Any] = field(default_factory=dict)
    tensors: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def add(self, name: str, *shape: int) -> None:
        self.tensors.append((name, shape))

    def block(self, index: int, **shapes: tuple[int, ...]) -> None:
        """Tensors `blk.N.<name>.weight`; a trailing `__bias` makes it `.bias`, `__raw` bare."""
        for name, shape in shapes.items():
            base, _, kind = name.partition("__")
            suffix = {"": ".weight", "bias": ".bias", "raw": ""}[kind]
            self.tensors.append((f"blk.{index}.{base}{suffix}", shape))


def layout(arch: str, dims: Dims) -> Layout:
    """The layout of architecture `arch`. Raises KeyError for one this file does not know."""
    return LAYOUTS[arch](arch, dims)


def _start(arch: str, d: Dims) -> Layout:
    out = Layout(arch)
    out.keys = {
        "block_count": d.n_layer,
        "context_length": d.n_ctx_train,
        "embedding_length": d.n_embd,
        "vocab_size": d.n_vocab,
    }
    out.add("token_embd.weight", d.n_embd, d.n_vocab)
    out.add("output_norm.weight", d.n_embd)
    if not d.tied:
        out.add("output.weight", d.n_embd, d.n_vocab)
    return out


def _attention_keys(out: Layout, d: Dims, n_head_kv: int | list[int] | None = None) -> None:
    out.keys |= {
        "feed_forward_length": d.n_ff,
        "attention.head_count": d.n_head,
        "attention.head_count_kv": d.n_head_kv if n_head_kv is None else n_head_kv,
        "attention.key_length": d.head_dim,
        "attention.value_length": d.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": d.get("n_rot", d.head_dim),
        "rope.freq_base": 10000.0,
    }


def _attention(out: Layout, i: int, d: Dims, *, qk_norm: bool = False, bias: bool = False) -> None:
    q, kv = d.n_head * d.head_dim, d.n_head_kv * d.head_dim
    out.block(i, attn_norm=(d.n_embd,), attn_q=(d.n_embd, q), attn_k=(d.n_embd, kv))
    out.block(i, attn_v=(d.n_embd, kv), attn_output=(q, d.n_embd))
    if bias:
        out.block(i, attn_q__bias=(q,), attn_k__bias=(kv,), attn_v__bias=(kv,))
    if qk_norm:
        out.block(i, attn_q_norm=(d.head_dim,), attn_k_norm=(d.head_dim,))


def _dense_ffn(out: Layout, i: int, d: Dims, n_ff: int | None = None) -> None:
    ff = n_ff or d.n_ff
    out.block(i, ffn_gate=(d.n_embd, ff), ffn_up=(d.n_embd, ff), ffn_down=(ff, d.n_embd))


def _experts(out: Layout, i: int, d: Dims, n_ff: int) -> None:
    n = d.get("n_expert")
    out.block(i, ffn_gate_inp=(d.n_embd, n), ffn_gate_exps=(d.n_embd, n_ff, n))
    out.block(i, ffn_up_exps=(d.n_embd, n_ff, n), ffn_down_exps=(n_ff, d.n_embd, n))


def _expert_keys(out: Layout, d: Dims) -> None:
    out.keys |= {
        "expert_count": d.get("n_expert"),
        "expert_used_count": d.get("n_expert_used"),
    }


def _llama(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    if d.get("n_expert"):
        _expert_keys(out, d)
    if d.get("rope_freqs"):
        out.add("rope_freqs.weight", d.head_dim // 2)
    for i in range(d.n_layer):
        _attention(out, i, d, bias=arch == "qwen2")
        out.block(i, ffn_norm=(d.n_embd,))
        if d.get("n_expert"):
            _experts(out, i, d, d.n_ff)
        else:
            _dense_ffn(out, i, d)
    return out


def _qwen3(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    if arch == "qwen3moe":
        _expert_keys(out, d)
        out.keys["expert_feed_forward_length"] = d.get("n_ff_exp")
    for i in range(d.n_layer):
        _attention(out, i, d, qk_norm=True)
        out.block(i, ffn_norm=(d.n_embd,))
        if arch == "qwen3moe":
            _experts(out, i, d, d.get("n_ff_exp"))
        else:
            _dense_ffn(out, i, d)
    return out


def _gemma3(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    out.keys["attention.sliding_window"] = d.get("n_swa")
    if d.get("swa_pattern"):
        out.keys["attention.sliding_window_pattern"] = d.get("swa_pattern")
    for i in range(d.n_layer):
        _attention(out, i, d, qk_norm=True)
        out.block(i, post_attention_norm=(d.n_embd,), ffn_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
        out.block(i, post_ffw_norm=(d.n_embd,))
    return out


def _deepseek2(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    rank, rope, nope = d.get("kv_lora_rank"), d.get("n_rot"), d.get("nope")
    v_mla, q_rank = d.get("v_mla"), d.get("q_lora_rank")
    k_mla, ff = nope + rope, d.get("n_ff_exp")
    _attention_keys(out, d, 1)
    _expert_keys(out, d)
    out.keys |= {
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": k_mla,
        "attention.value_length_mla": v_mla,
        "attention.kv_lora_rank": rank,
        "attention.q_lora_rank": q_rank,
        "leading_dense_block_count": d.get("n_dense", 1),
        "expert_feed_forward_length": ff,
        "expert_shared_count": 1,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
    }
    heads = d.n_head
    for i in range(d.n_layer):
        out.block(i, attn_norm=(d.n_embd,), attn_q_a_norm=(q_rank,), attn_kv_a_norm=(rank,))
        out.block(i, attn_q_a=(d.n_embd, q_rank), attn_q_b=(q_rank, heads * k_mla))
        out.block(i, attn_kv_a_mqa=(d.n_embd, rank + rope), attn_k_b=(nope, rank, heads))
        out.block(i, attn_v_b=(rank, v_mla, heads), attn_output=(heads * v_mla, d.n_embd))
        out.block(i, ffn_norm=(d.n_embd,))
        if i < d.get("n_dense", 1):
            _dense_ffn(out, i, d)
            continue
        _experts(out, i, d, ff)
        out.block(i, exp_probs_b__bias=(d.get("n_expert"),))
        out.block(i, ffn_gate_shexp=(d.n_embd, ff), ffn_up_shexp=(d.n_embd, ff))
        out.block(i, ffn_down_shexp=(ff, d.n_embd))
    return out


def _ssm_keys(out: Layout, d: Dims) -> None:
    out.keys |= {
        "ssm.conv_kernel": d.get("d_conv", 4),
        "ssm.inner_size": d.get("d_inner"),
        "ssm.state_size": d.get("d_state"),
        "ssm.time_step_rank": d.get("dt_rank"),
        "ssm.group_count": d.get("n_group", 1),
    }


def _mamba2_mixer(out: Layout, i: int, d: Dims) -> None:
    inner, dt, group = d.get("d_inner"), d.get("dt_rank"), d.get("n_group", 1)
    conv = inner + 2 * group * d.get("d_state")
    out.block(i, attn_norm=(d.n_embd,), ssm_in=(d.n_embd, inner + conv + dt))
    out.block(i, ssm_conv1d=(d.get("d_conv", 4), conv), ssm_conv1d__bias=(conv,))
    out.block(i, ssm_dt__bias=(dt,), ssm_a__raw=(1, dt), ssm_d__raw=(1, dt))
    out.block(i, ssm_norm=(inner // group, group), ssm_out=(inner, d.n_embd))


def _mamba2(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    out.keys |= {
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    _ssm_keys(out, d)
    for i in range(d.n_layer):
        _mamba2_mixer(out, i, d)
    return out


def _granite_hybrid(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    attention = set(d.get("attention_layers"))
    per_layer = [d.n_head_kv if i in attention else 0 for i in range(d.n_layer)]
    _attention_keys(out, d, per_layer)
    _ssm_keys(out, d)
    if d.get("n_expert"):
        _expert_keys(out, d)
        out.keys["expert_shared_feed_forward_length"] = d.get("n_ff_shexp")
    for i in range(d.n_layer):
        if i in attention:
            _attention(out, i, d)
        else:
            _mamba2_mixer(out, i, d)
        out.block(i, ffn_norm=(d.n_embd,))
        if d.get("n_expert"):
            _experts(out, i, d, d.n_ff)
            shared = d.get("n_ff_shexp")
            out.block(i, ffn_gate_shexp=(d.n_embd, shared), ffn_up_shexp=(d.n_embd, shared))
            out.block(i, ffn_down_shexp=(shared, d.n_embd))
        else:
            _dense_ffn(out, i, d)
    return out


def _nemotron_h(arch: str, d: Dims) -> Layout:
    """`pattern` has one letter per block: M is a mixer, * attention, - feed-forward."""
    out = _start(arch, d)
    pattern = d.get("pattern")
    _attention_keys(out, d, [d.n_head_kv if kind == "*" else 0 for kind in pattern])
    _ssm_keys(out, d)
    out.keys["feed_forward_length"] = [d.n_ff if kind == "-" else 0 for kind in pattern]
    out.keys["attention.layer_norm_epsilon"] = 1e-5
    for i, kind in enumerate(pattern):
        if kind == "M":
            _mamba2_mixer(out, i, d)
        elif kind == "*":
            _attention(out, i, d)
        else:
            out.block(i, attn_norm=(d.n_embd,), ffn_up=(d.n_embd, d.n_ff))
            out.block(i, ffn_down=(d.n_ff, d.n_embd))
    return out


def _falcon_h1(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    _ssm_keys(out, d)
    for i in range(d.n_layer):
        _mamba2_mixer(out, i, d)
        # One norm serves both.
        norm = out.tensors.index((f"blk.{i}.attn_norm.weight", (d.n_embd,)))
        del out.tensors[norm]
        _attention(out, i, d)
        out.block(i, ffn_norm__raw=(d.n_embd,))
        _dense_ffn(out, i, d)
    return out


def _lfm2(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    out.tensors = [
        ("token_embd_norm.weight" if name == "output_norm.weight" else name, shape)
        for name, shape in out.tensors
    ]
    attention = set(d.get("attention_layers"))
    per_layer = [d.n_head_kv if i in attention else 0 for i in range(d.n_layer)]
    _attention_keys(out, d, per_layer)
    out.keys["shortconv.l_cache"] = d.get("l_cache", 3)
    for i in range(d.n_layer):
        if i in attention:
            _attention(out, i, d, qk_norm=True)
        else:
            out.block(i, attn_norm=(d.n_embd,))
            out.tensors.append(
                (f"blk.{i}.shortconv.conv.weight", (d.get("l_cache", 3), d.n_embd)),
            )
            out.tensors.append((f"blk.{i}.shortconv.in_proj.weight", (d.n_embd, 3 * d.n_embd)))
            out.tensors.append((f"blk.{i}.shortconv.out_proj.weight", (d.n_embd, d.n_embd)))
        out.block(i, ffn_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
    return out


def _gemma2(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    out.keys |= {
        "attention.sliding_window": d.get("n_swa"),
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    }
    for i in range(d.n_layer):
        _attention(out, i, d)
        out.block(i, post_attention_norm=(d.n_embd,), ffn_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
        out.block(i, post_ffw_norm=(d.n_embd,))
    return out


def _glm4moe(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    _expert_keys(out, d)
    nextn, ff = d.get("nextn", 0), d.get("n_ff_exp")
    out.keys |= {
        "block_count": d.n_layer + nextn,
        "nextn_predict_layers": nextn,
        "expert_feed_forward_length": ff,
        "expert_shared_count": 1,
        "leading_dense_block_count": 1,
        "expert_gating_func": 2,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
    }
    for i in range(d.n_layer + nextn):
        _attention(out, i, d, bias=True)
        out.block(i, post_attention_norm=(d.n_embd,))
        if i == 0:
            _dense_ffn(out, i, d)
        else:
            _experts(out, i, d, ff)
            out.block(i, exp_probs_b__bias=(d.get("n_expert"),))
            out.block(i, ffn_gate_shexp=(d.n_embd, ff), ffn_up_shexp=(d.n_embd, ff))
            out.block(i, ffn_down_shexp=(ff, d.n_embd))
        if i >= d.n_layer:
            out.tensors += [
                (f"blk.{i}.nextn.eh_proj.weight", (2 * d.n_embd, d.n_embd)),
                (f"blk.{i}.nextn.enorm.weight", (d.n_embd,)),
                (f"blk.{i}.nextn.hnorm.weight", (d.n_embd,)),
                (f"blk.{i}.nextn.shared_head_norm.weight", (d.n_embd,)),
            ]
    return out


def _olmo2(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    kv = d.n_head_kv * d.head_dim
    for i in range(d.n_layer):
        out.block(i, attn_q=(d.n_embd, d.n_embd), attn_k=(d.n_embd, kv), attn_v=(d.n_embd, kv))
        out.block(i, attn_output=(d.n_embd, d.n_embd), attn_q_norm=(d.n_embd,))
        out.block(i, attn_k_norm=(kv,), post_attention_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
        out.block(i, post_ffw_norm=(d.n_embd,))
    return out


def _seed_oss(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    for i in range(d.n_layer):
        _attention(out, i, d, bias=True)
        out.block(i, post_attention_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
    return out


def _granite(arch: str, d: Dims) -> Layout:
    out = _llama(arch, d)
    out.keys |= {
        "logit_scale": 16.0,
        "residual_scale": 0.22,
        "embedding_scale": 12.0,
        "attention.scale": 0.0078125,
    }
    return out


def _gemma4(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    sliding = [(i + 1) % 6 != 0 for i in range(d.n_layer)]
    heads_kv = [d.n_head_kv if swa else d.get("n_head_kv_full", d.n_head_kv) for swa in sliding]
    _attention_keys(out, d, heads_kv)
    shared, per_layer = d.get("shared", 0), d.get("per_layer", 0)
    out.keys |= {
        "attention.sliding_window": d.get("n_swa"),
        "attention.sliding_window_pattern": sliding,
        "attention.shared_kv_layers": shared,
        "attention.key_length_swa": d.get("head_dim_swa"),
        "attention.value_length_swa": d.get("head_dim_swa"),
        "rope.dimension_count_swa": d.get("head_dim_swa"),
        "embedding_length_per_layer_input": per_layer,
        "final_logit_softcapping": 30.0,
    }
    out.add("rope_freqs.weight", d.head_dim // 2)
    if per_layer:
        out.add("per_layer_token_embd.weight", per_layer * d.n_layer, d.n_vocab)
        out.add("per_layer_model_proj.weight", d.n_embd, per_layer * d.n_layer)
        out.add("per_layer_proj_norm.weight", per_layer)
    for i, swa in enumerate(sliding):
        dim = d.get("head_dim_swa") if swa else d.head_dim
        q, kv = d.n_head * dim, heads_kv[i] * dim
        out.block(i, attn_norm=(d.n_embd,), attn_q=(d.n_embd, q), attn_q_norm=(dim,))
        if i < d.n_layer - shared:
            out.block(i, attn_k=(d.n_embd, kv), attn_k_norm=(dim,))
            if swa or not d.get("k_is_v"):
                out.block(i, attn_v=(d.n_embd, kv))
        out.block(i, attn_output=(q, d.n_embd), post_attention_norm=(d.n_embd,))
        out.block(i, ffn_norm=(d.n_embd,), post_ffw_norm=(d.n_embd,), layer_output_scale=(1,))
        _dense_ffn(out, i, d)
        if per_layer:
            out.block(i, inp_gate=(d.n_embd, per_layer), proj=(per_layer, d.n_embd))
            out.block(i, post_norm=(d.n_embd,))
    return out


def _gpt_oss(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    _expert_keys(out, d)
    ff, n = d.get("n_ff_exp"), d.get("n_expert")
    out.keys |= {"expert_feed_forward_length": ff, "attention.sliding_window": d.get("n_swa")}
    for i in range(d.n_layer):
        _attention(out, i, d, bias=True)
        out.block(i, attn_output__bias=(d.n_embd,), attn_sinks=(d.n_head,))
        out.block(i, post_attention_norm=(d.n_embd,))
        _experts(out, i, d, ff)
        out.block(i, ffn_gate_inp__bias=(n,), ffn_gate_exps__bias=(ff, n))
        out.block(i, ffn_up_exps__bias=(ff, n), ffn_down_exps__bias=(d.n_embd, n))
    return out


def _qwen35(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    _ssm_keys(out, d)
    nextn, interval = d.get("nextn", 0), d.get("interval", 4)
    out.keys |= {
        "block_count": d.n_layer + nextn,
        "nextn_predict_layers": nextn,
        "full_attention_interval": interval,
        "rope.dimension_sections": [d.get("n_rot") // 6 * 2, d.get("n_rot") // 6, 0, 0],
    }
    if d.get("n_expert"):
        _expert_keys(out, d)
        out.keys["expert_feed_forward_length"] = d.get("n_ff_exp")
        out.keys["expert_shared_feed_forward_length"] = d.get("n_ff_exp")
    for i in range(d.n_layer + nextn):
        if i < d.n_layer and (i + 1) % interval:
            _delta_net(out, i, d)
        else:
            q, kv = d.n_head * d.head_dim, d.n_head_kv * d.head_dim
            out.block(i, attn_norm=(d.n_embd,), attn_q=(d.n_embd, 2 * q), attn_k=(d.n_embd, kv))
            out.block(i, attn_v=(d.n_embd, kv), attn_output=(q, d.n_embd))
            out.block(i, attn_q_norm=(d.head_dim,), attn_k_norm=(d.head_dim,))
        out.block(i, post_attention_norm=(d.n_embd,))
        if d.get("n_expert"):
            ff = d.get("n_ff_exp")
            _experts(out, i, d, ff)
            out.block(i, ffn_gate_inp_shexp=(d.n_embd,), ffn_gate_shexp=(d.n_embd, ff))
            out.block(i, ffn_up_shexp=(d.n_embd, ff), ffn_down_shexp=(ff, d.n_embd))
        else:
            _dense_ffn(out, i, d)
        if i >= d.n_layer:
            out.tensors += [
                (f"blk.{i}.nextn.eh_proj.weight", (2 * d.n_embd, d.n_embd)),
                (f"blk.{i}.nextn.enorm.weight", (d.n_embd,)),
                (f"blk.{i}.nextn.hnorm.weight", (d.n_embd,)),
                (f"blk.{i}.nextn.shared_head_norm.weight", (d.n_embd,)),
            ]
    return out


def _delta_net(out: Layout, i: int, d: Dims) -> None:
    state, heads = d.get("d_state"), d.get("dt_rank")
    value, key = state * heads, state * d.get("n_group")
    out.block(i, attn_norm=(d.n_embd,), attn_qkv=(d.n_embd, 2 * key + value))
    out.block(i, attn_gate=(d.n_embd, value), ssm_conv1d=(d.get("d_conv", 4), 2 * key + value))
    out.block(i, ssm_dt__bias=(heads,), ssm_a__raw=(heads,), ssm_beta=(d.n_embd, heads))
    out.block(i, ssm_alpha=(d.n_embd, heads), ssm_norm=(state,), ssm_out=(value, d.n_embd))


def _phi3(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    qkv = (d.n_head + 2 * d.n_head_kv) * d.head_dim
    for i in range(d.n_layer):
        out.block(i, attn_norm=(d.n_embd,), attn_qkv=(d.n_embd, qkv))
        out.block(i, attn_output=(d.n_head * d.head_dim, d.n_embd), ffn_norm=(d.n_embd,))
        out.block(i, ffn_up=(d.n_embd, 2 * d.n_ff), ffn_down=(d.n_ff, d.n_embd))
    return out


def _bert(arch: str, d: Dims) -> Layout:
    out = Layout(arch)
    out.keys = {
        "block_count": d.n_layer,
        "context_length": d.n_ctx_train,
        "embedding_length": d.n_embd,
        "feed_forward_length": d.n_ff,
        "attention.head_count": d.n_head,
        "attention.layer_norm_epsilon": 1e-12,
        "attention.causal": False,
        "pooling_type": 1,
    }
    out.add("token_embd.weight", d.n_embd, d.n_vocab)
    out.add("token_types.weight", d.n_embd, 2)
    out.add("position_embd.weight", d.n_embd, d.n_ctx_train)
    out.add("token_embd_norm.weight", d.n_embd)
    out.add("token_embd_norm.bias", d.n_embd)
    for i in range(d.n_layer):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            out.block(i, **{name: (d.n_embd, d.n_embd), f"{name}__bias": (d.n_embd,)})
        for name in ("attn_output_norm", "layer_output_norm"):
            out.block(i, **{name: (d.n_embd,), f"{name}__bias": (d.n_embd,)})
        out.block(i, ffn_up=(d.n_embd, d.n_ff), ffn_up__bias=(d.n_ff,))
        out.block(i, ffn_down=(d.n_ff, d.n_embd), ffn_down__bias=(d.n_embd,))
    return out


def _muse_glimmer(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    out.keys |= {
        "attention.sliding_window": d.get("n_swa"),
        "final_logit_softcapping": 30.0,
        "logit_scale": 0.5,
    }
    q = d.n_head * d.head_dim
    for i in range(d.n_layer):
        _attention(out, i, d, qk_norm=True)
        out.block(i, attn_gate=(d.n_embd, q), post_attention_norm=(d.n_embd,))
        out.block(i, ffn_norm=(d.n_embd,), post_ffw_norm=(d.n_embd,))
        _dense_ffn(out, i, d)
    return out


def _laguna(arch: str, d: Dims) -> Layout:
    out = _start(arch, d)
    _attention_keys(out, d)
    _expert_keys(out, d)
    ff, dense = d.get("n_ff_exp"), d.get("dense", 1)
    out.keys |= {
        "leading_dense_block_count": dense,
        "expert_feed_forward_length": ff,
        "expert_shared_feed_forward_length": ff,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
    }
    if d.get("n_swa"):
        out.keys["attention.sliding_window"] = d.get("n_swa")
        out.keys["rope.dimension_count_swa"] = d.head_dim
    gate = d.n_head if d.get("gate_by_head") else d.n_head * d.head_dim
    for i in range(d.n_layer):
        _attention(out, i, d, qk_norm=True)
        out.block(i, attn_gate=(d.n_embd, gate), ffn_norm=(d.n_embd,))
        if i < dense:
            _dense_ffn(out, i, d)
            continue
        _experts(out, i, d, ff)
        out.block(i, exp_probs_b__bias=(d.get("n_expert"),))
        out.block(i, ffn_gate_shexp=(d.n_embd, ff), ffn_up_shexp=(d.n_embd, ff))
        out.block(i, ffn_down_shexp=(ff, d.n_embd))
    return out


LAYOUTS: dict[str, Callable[[str, Dims], Layout]] = {
    "llama": _llama,
    "qwen2": _llama,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "glm4moe": _glm4moe,
    "olmo2": _olmo2,
    "seed_oss": _seed_oss,
    "smollm3": _llama,
    "granite": _granite,
    "deepseek2": _deepseek2,
    "mamba2": _mamba2,
    "granitehybrid": _granite_hybrid,
    "lfm2": _lfm2,
    "nemotron_h": _nemotron_h,
    "falcon-h1": _falcon_h1,
    "gemma4": _gemma4,
    "gpt-oss": _gpt_oss,
    "qwen35": _qwen35,
    "qwen35moe": _qwen35,
    "phi3": _phi3,
    "muse-glimmer": _muse_glimmer,
    "laguna": _laguna,
    "bert": _bert,
}
