"""Can this file generate text? Answered from the header, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.errors import BadModelFile
from localspec.ggufmeta.header import Header, read_header
from localspec.ggufmeta.known import EMBEDDERS, GENERATORS, HEADS, OTHERS

MAX_LAYERS = 512
MAX_EXPERTS = 1024
"""llama.cpp aborts the process beyond these (llama-hparams.h)."""
_POOLING_RANK = 4
"""llama.h: LLAMA_POOLING_TYPE_RANK"""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a header says in one glance."""

    path: Path
    architecture: str
    name: str
    """`general.name`; the file's name where the header has none."""
    n_layer: int
    n_ctx_train: int
    n_vocab: int
    n_parameters: int
    size: int
    """Bytes of all its files."""
    tensor_bytes: int
    header: Header


def inspect_model(path: Path) -> ModelInfo:
    """What the model at `path` is. Raises BadModelFile when it is not a whole GGUF file."""
    return describe(path, read_header(path))


def check_runnable(path: Path, *, embeds: bool = False) -> ModelInfo:
    """As `inspect_model`, and refuses what cannot generate text; with `embeds`, what cannot turn
    text into vectors. Raises BadModelFile."""
    info = inspect_model(path)
    refuse_unrunnable(info.header, embeds=embeds)
    return info


def is_made_for_embeddings(header: Header) -> bool:
    """Whether vectors are what the model is for: by its architecture, or by a rule of its own for
    making one vector out of those of all tokens."""
    pooling = header.whole("pooling_type")
    return header.architecture in EMBEDDERS or (pooling is not None and pooling > 0)


def is_ranker(header: Header) -> bool:
    """Whether the model gives a score to a pair of texts instead of a vector to each."""
    return header.whole("pooling_type") == _POOLING_RANK


def describe(path: Path, header: Header) -> ModelInfo:
    """The summary of a header that has been read already."""
    name = header.metadata.get("general.name")
    tokens = header.array("tokenizer.ggml.tokens")
    n_parameters = 0
    for tensor in header.tensors:
        elements = 1
        for dimension in tensor.shape:
            elements *= dimension
        n_parameters += elements
    return ModelInfo(
        path=path,
        architecture=header.architecture,
        name=name if isinstance(name, str) and name else path.stem,
        n_layer=header.whole("block_count") or 0,
        n_ctx_train=header.whole("context_length") or 0,
        n_vocab=tokens.count if tokens else header.whole("vocab_size") or 0,
        n_parameters=n_parameters,
        size=sum(part.full_size for part in header.parts),
        tensor_bytes=header.tensor_bytes,
        header=header,
    )


def refuse_unrunnable(header: Header, *, embeds: bool = False) -> None:
    """Raises BadModelFile for a header of something that does not generate text; with `embeds`, of
    something that gives no vectors."""
    name, arch = header.name, header.architecture
    kind = header.metadata.get("general.type", "model")
    if kind in ("adapter", "imatrix", "mmproj"):
        what = {"adapter": "a LoRA adapter", "imatrix": "an importance matrix"}.get(
            kind, "a multimodal projector"
        )
        raise BadModelFile(f"{name} is {what}, not a model", hint="name the model it belongs to")
    if not arch:
        raise BadModelFile(f"{name} does not say which architecture it has")
    if embeds and is_ranker(header):
        raise BadModelFile(
            f"{name} scores pairs of texts: it gives no embeddings",
            hint="choose an embedding model",
            architecture=arch,
        )
    if arch in OTHERS or (arch in EMBEDDERS and not embeds):
        what = OTHERS.get(arch, "an embedding model")
        raise BadModelFile(
            f"{name} is {what} ({arch}): it does not generate text",
            hint="choose a chat or completion model",
            architecture=arch,
        )
    if arch in HEADS:
        raise BadModelFile(
            f"{name} is a draft head ({arch}): it does not run alone",
            hint="name the model it was trained for",
            architecture=arch,
        )
    if arch not in GENERATORS and arch not in EMBEDDERS:
        raise BadModelFile(
            f"{name} has the architecture {arch!r}, which this llama.cpp does not know",
            hint="a newer localspec may know it",
            architecture=arch,
        )
    if not header.tensors:
        raise BadModelFile(
            f"{name} has a vocabulary but no weights", hint="a vocab-only file cannot run"
        )
    _refuse_aborting(header)


def _refuse_aborting(header: Header) -> None:
    # llama.cpp ends the process (GGML_ASSERT) on these instead of returning an error.
    for key, most in (("block_count", MAX_LAYERS), ("expert_count", MAX_EXPERTS)):
        count = header.whole(key)
        if count is None:
            if key == "block_count":
                raise BadModelFile(f"{header.name} does not say how many layers it has")
            continue
        if count > most or (key == "block_count" and count == 0):
            raise BadModelFile(f"{header.name} claims {key} = {count}, between 1 and {most} work")
    if header.whole("context_length") is None or header.whole("embedding_length") is None:
        raise BadModelFile(f"{header.name} lacks its context length or its embedding length")
    experts, used = header.whole("expert_count") or 0, header.whole("expert_used_count") or 0
    if used > experts or (experts > 0 and header.own("expert_used_count") is None):
        raise BadModelFile(f"{header.name} uses {used} of {experts} experts, which cannot be")
