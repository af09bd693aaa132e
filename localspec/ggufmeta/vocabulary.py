"""What a tokenizer is, from the header: its kind, its ids, its tokens, and a fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from localspec.errors import BadModelFile
from localspec.ggufmeta.header import Header
from localspec.ggufmeta.values import Array

_KINDS = {
    "llama": "SPM",
    "gpt2": "BPE",
    "gemma4": "BPE",
    "hybriddna": "BPE",
    "whitespace": "BPE",
    "bert": "WPM",
    "t5": "UGM",
    "rwkv": "RWKV",
    "plamo2": "PLAMO2",
}
"""llama.cpp's vocabulary type by `tokenizer.ggml.model` (llama-vocab.cpp)."""
_BEGIN_PRE = frozenset(
    {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}
    | {"jina-v5-nano", "tekken", "chameleon"}
)
"""BPE pre-tokenizers that add BOS unless the header says otherwise."""
_DEFAULT_BOS = {"SPM": 1, "BPE": 11, "WPM": 101, "PLAMO2": 1}
_DEFAULT_EOS = {"SPM": 2, "BPE": 11, "UGM": 1, "PLAMO2": 2}
_SPECIAL = ("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One model's tokenizer, as far as speculation cares."""

    name: str
    """What messages call the model."""
    kind: str
    """`SPM`, `BPE`, `WPM`, `UGM`, `RWKV`, `PLAMO2`."""
    pre: str
    n_tokens: int
    add_bos: bool
    add_eos: bool
    bos: int | None
    eos: int | None
    tokens: Array

    def texts(self) -> list[bytes]:
        """(n_tokens,) the text of every token."""
        return self.tokens.strings()


def read_vocabulary(header: Header) -> Vocabulary:
    """The tokenizer of a header. Raises BadModelFile when it has none."""
    meta = header.metadata
    tokens = header.array("tokenizer.ggml.tokens")
    model = meta.get("tokenizer.ggml.model")
    if tokens is None or not tokens.is_strings or not isinstance(model, str):
        raise BadModelFile(f"{header.name} has no vocabulary")
    kind = _KINDS.get(model, model)
    pre = meta.get("tokenizer.ggml.pre", "")
    begins = kind in ("SPM", "WPM") or (kind == "BPE" and pre in _BEGIN_PRE)
    add_bos = bool(meta.get("tokenizer.ggml.add_bos_token", begins))
    if model == "gemma4":
        # llama-vocab.cpp overrides a header that says no.
        add_bos = True
    return Vocabulary(
        name=header.name,
        kind=kind,
        pre=pre if isinstance(pre, str) else "",
        n_tokens=tokens.count,
        add_bos=add_bos,
        add_eos=bool(meta.get("tokenizer.ggml.add_eos_token", kind == "UGM")),
        bos=_token(header, "bos", _DEFAULT_BOS.get(kind)),
        eos=_token(header, "eos", _DEFAULT_EOS.get(kind)),
        tokens=tokens,
    )


def fingerprint(header: Header) -> str:
    """16 hex digits that two models share exactly when they tokenise with the same vocabulary.

    SHA-256 over tokenizer model and pre-tokenizer, tokens, token types and special ids. Raises
    BadModelFile when the header has no vocabulary.
    """
    vocabulary = read_vocabulary(header)
    digest = hashlib.sha256()
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.pre"):
        digest.update(f"{key}={header.metadata.get(key, '')}\n".encode())
    for name in _SPECIAL:
        digest.update(f"{name}={_token(header, name, None)}\n".encode())
    types = header.array("tokenizer.ggml.token_type")
    digest.update(vocabulary.tokens.raw)
    digest.update(b"\0types\0")
    digest.update(types.raw if types is not None else b"")
    return digest.hexdigest()[:16]


def _token(header: Header, name: str, default: int | None) -> int | None:
    found = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
    return found if isinstance(found, int) and not isinstance(found, bool) else default
