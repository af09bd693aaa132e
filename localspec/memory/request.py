"""What is to be loaded, and how: the question that an estimate and a probe both answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from localspec.errors import UsageError
from localspec.ggufmeta.architecture import Architecture, read_architecture
from localspec.ggufmeta.ggml_types import BY_NAME, KV_TYPES
from localspec.ggufmeta.header import Header

DEFAULT_CTX = 8192
"""Tokens of context when nobody asks for another number and the model allows as many."""
MAX_ROLLBACK_ROWS = 8
"""Most rows of rollback a recurrent target gets; each costs a whole state."""


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """One model with one context."""

    role: str
    """`target` or `draft`."""
    header: Header
    architecture: Architecture
    n_ctx: int
    """Of all sequences together."""
    n_batch: int = 2048
    n_ubatch: int = 512
    n_outputs: int = 1
    """Rows of logits one pass may ask for."""
    n_seq: int = 1
    kv_type: str = "f16"
    flash_attn: bool | None = True
    """None leaves it to the plan, whose loads have it decided (`flash_attention.py`)."""
    gpu_layers: int | None = None
    """Layers on GPUs, the output matrix counted as one more; None is all of them."""
    experts_on_cpu: int = 0
    """Layers, from the first, whose experts stay in host memory."""
    tensor_split: tuple[float, ...] = ()
    """Shares of the layers by GPU; empty goes by free memory."""
    rollback_rows: int = 0
    with_nextn: bool = False
    """Load next-token-prediction blocks too, with a second context."""
    weight_scale: float = 1.0
    """Size of every tensor by that in the header: another quantisation, of which only the file's
    size is known."""

    @property
    def cells(self) -> int:
        """Cells of the full cache: the context, padded to 256 (llama-context.cpp)."""
        return _padded(self.n_ctx)

    @property
    def cells_swa(self) -> int:
        """Cells of the sliding cache (llama-kv-cache-iswa.cpp); 0 for a model without a window."""
        window = self.architecture.n_swa
        if not window:
            return 0
        return _padded(min(self.cells, window * self.n_seq + self.ubatch))

    @property
    def ubatch(self) -> int:
        return min(self.n_ubatch, self.batch)

    @property
    def batch(self) -> int:
        return min(self.n_batch, self.n_ctx)

    @property
    def rows_of_state(self) -> int:
        """Rows each recurrent state takes, rollback rows included."""
        rollback = self.rollback_rows if self.architecture.supports_rollback else 0
        return self.n_seq * (1 + rollback)

    def with_ctx(self, n_ctx: int) -> ModelLoad:
        return replace(self, n_ctx=n_ctx)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of `fit` and `run` that decide about memory."""

    n_ctx: int | None = None
    """Of each sequence; None takes the target's own context, at most DEFAULT_CTX."""
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    gpu_layers: int | None = None
    draft_gpu_layers: int | None = None
    n_batch: int = 2048
    n_ubatch: int = 512
    flash_attn: bool | None = True
    """None is `auto`."""
    draft_max: int = 16
    n_seq: int = 1
    experts_on_cpu: int = 0
    tensor_split: tuple[float, ...] = ()
    with_nextn: bool = False
    """Plan for the target's next-token-prediction blocks as drafter."""


def make_loads(target: Header, draft: Header | None, options: LoadOptions) -> tuple[ModelLoad, ...]:
    """Target, and draft with the target's context, as the engine loads them.

    Raises UsageError for an option that cannot be, BadModelFile for a header that cannot be read.
    """
    for kv_type in (options.kv_type, options.draft_kv_type):
        if kv_type not in KV_TYPES:
            raise UsageError(
                f"{kv_type!r} is not a type of KV cache", hint=f"one of {', '.join(KV_TYPES)}"
            )
        if BY_NAME[kv_type].block > 1 and options.flash_attn is False:
            raise UsageError(
                f"a {kv_type} cache needs flash attention", hint="--flash-attn on, or --kv-type f16"
            )
    architecture = read_architecture(target)
    n_ctx = options.n_ctx or min(architecture.n_ctx_train or DEFAULT_CTX, DEFAULT_CTX)
    n_ctx *= options.n_seq
    # Answers that are decoded together share the rows of one round (engine/loading.py).
    rows = max(1 + options.draft_max, options.n_seq)
    loads = [
        ModelLoad(
            role="target",
            header=target,
            architecture=architecture,
            n_ctx=n_ctx,
            n_batch=max(options.n_batch, rows),
            n_ubatch=max(options.n_ubatch, rows),
            n_outputs=rows,
            n_seq=options.n_seq,
            kv_type=options.kv_type,
            flash_attn=options.flash_attn,
            gpu_layers=options.gpu_layers,
            experts_on_cpu=options.experts_on_cpu,
            tensor_split=options.tensor_split,
            rollback_rows=min(options.draft_max, MAX_ROLLBACK_ROWS),
            with_nextn=options.with_nextn and architecture.n_nextn > 0,
        )
    ]
    if draft is not None:
        loads.append(
            ModelLoad(
                role="draft",
                header=draft,
                architecture=read_architecture(draft),
                n_ctx=n_ctx,
                n_batch=options.n_batch,
                n_ubatch=options.n_ubatch,
                n_outputs=1,
                n_seq=options.n_seq,
                kv_type=options.draft_kv_type,
                flash_attn=options.flash_attn,
                gpu_layers=options.draft_gpu_layers,
                tensor_split=options.tensor_split,
            )
        )
    return tuple(loads)


def check_shares(shares: tuple[float, ...], n_gpus: int) -> None:
    """Raises UsageError for more shares than there are cards."""
    if len(shares) > n_gpus:
        cards = "no card" if n_gpus == 0 else f"{n_gpus} card{'s' if n_gpus > 1 else ''}"
        text = ",".join(f"{share:g}" for share in shares)
        raise UsageError(
            f"--tensor-split {text} has {len(shares)} shares, the machine has {cards}",
            hint="one share for each card, in their order: localspec doctor",
        )


def _padded(cells: int) -> int:
    return -(-cells // 256) * 256
