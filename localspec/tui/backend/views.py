"""What screens show: frozen, ready to be drawn, nothing to be looked up any more."""

from __future__ import annotations

from dataclasses import dataclass, field

METHODS = ("none", "ngram", "model", "auto")
"""Drafters a chat can be switched to, in the order of the switch."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device that models can be loaded into."""

    name: str
    kind: str
    """`gpu`, `igpu`, `cpu`, `accelerator`."""
    total: int
    """Bytes; 0 when unknown."""
    free: int


@dataclass(frozen=True, slots=True)
class MachineView:
    """This machine and the build of llama.cpp on it."""

    devices: tuple[DeviceView, ...] = ()
    """GPUs only; empty on a machine that computes on its CPU."""
    ram_total: int = 0
    ram_free: int = 0
    cpu: str = ""
    build: str = ""
    """Version of llama.cpp."""
    advice: str = ""
    """One sentence when the build leaves a device unused; empty when all is well."""
    command: str = ""
    """The command that mends it."""


@dataclass(frozen=True, slots=True)
class FitBrief:
    """Whether a row fits, in a few words."""

    verdict: str
    """`fits`, `tight`, `short` (something is missing), `unknown`."""
    text: str
    """`✓ 14 k ctx`, `✗ −1.1 GiB`: never only a colour."""
    reason: str = ""
    """A sentence for the details."""


UNKNOWN_FIT = FitBrief("unknown", "…")


@dataclass(frozen=True, slots=True)
class FileView:
    """One model file of a row."""

    role: str
    """`target` or `draft`."""
    name: str
    size: int | None
    """Bytes; None when only the Hub knows."""
    on_disk: bool
    license: str = ""
    found_in: str = ""
    """Whose folder it lies in, when it is not localspec's own."""
    source: str = ""
    guess: int | None = None
    """Bytes guessed from its name, while `size` is None."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A pair of the catalogue, or a file that is here besides."""

    id: str
    method: str
    target: FileView
    draft: FileView | None = None
    built: bool = True
    """Whether the drafter of the method is there; if not, the n-gram drafter runs."""
    note: str = ""
    reported: str = ""
    """A speed that somebody else measured, and who."""
    gain: float | None = None
    """Speed-up over plain decoding measured on this machine."""
    fit: FitBrief = UNKNOWN_FIT
    drafts: tuple[str, ...] = ()
    """Ids of other pairs with the same target."""

    @property
    def files(self) -> tuple[FileView, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def size(self) -> int | None:
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def likely_size(self) -> int | None:
        """Bytes of what is loaded, guessed where not known; None when a name tells nothing."""
        loaded = self.files if self.built else (self.target,)
        sizes = [file.size if file.size is not None else file.guess for file in loaded]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def to_pull(self) -> int | None:
        """Bytes to download; 0 when all is here, None when that is not known."""
        missing = [file.size for file in self.files if not file.on_disk]
        known = [size for size in missing if size is not None]
        return sum(known) if len(known) == len(missing) else None

    @property
    def here(self) -> str:
        """`all`, `part` or `none` of the files are on this machine."""
        count = sum(file.on_disk for file in self.files)
        return "all" if count == len(self.files) else "part" if count else "none"


@dataclass(frozen=True, slots=True)
class FitChoice:
    """How to load: what the fit screen changes and *Launch* takes as it is."""

    n_ctx: int = 0
    """0 leaves it to the program."""
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    gpu_layers: int | None = None
    """None is all of them."""
    use_draft: bool = True
    draft_max: int | None = None
    """None leaves it to the pair or the program."""
    draft_gpu_layers: int | None = None
    n_ubatch: int = 512
    quant: str = ""
    """Another quantisation of the same target; empty keeps the pair's own file."""


def named(model: str, quant: str) -> str:
    """How a pair with another quantisation of its target is called: `qwen3-32b+0.6b:Q4_K_S`."""
    return f"{model}:{quant}" if quant else model


@dataclass(frozen=True, slots=True)
class FitPart:
    model: str
    """`target` or `draft`."""
    kind: str
    """`weights`, `kv`, `recurrent`, `compute`, `output`."""
    bytes: int


@dataclass(frozen=True, slots=True)
class FitDevice:
    """One device with everything that would be in it."""

    name: str
    total: int
    free: int
    """Bytes free before loading; of an imagined device its whole size."""
    parts: tuple[FitPart, ...]
    overhead: int = 0
    """Bytes outside all buffers: the backend's own context, measured or assumed."""

    @property
    def required(self) -> int:
        return sum(part.bytes for part in self.parts) + self.overhead

    @property
    def headroom(self) -> int:
        return self.free - self.required


@dataclass(frozen=True, slots=True)
class FitSuggestion:
    """A change that would free memory or make it fit."""

    text: str
    required: int
    """Bytes needed with it."""
    fits: bool
    choice: FitChoice | None = None
    """What to apply; None where it cannot be applied here."""


@dataclass(frozen=True, slots=True)
class FitReport:
    """The answer to one choice."""

    choice: FitChoice
    """With every 0 and None that could be filled in filled in."""
    fits: bool
    devices: tuple[FitDevice, ...]
    max_ctx: int
    """The largest context that fits; 0 when none does."""
    n_layers: int
    n_ctx_train: int
    kv_types: tuple[str, ...]
    quants: tuple[str, ...] = ()
    """Quantisations of the target to choose from, its own first; empty when nobody asked."""
    draft_name: str = ""
    vocabulary: str = ""
    """How the draft's vocabulary stands to the target's, in words; empty without a draft."""
    suggestions: tuple[FitSuggestion, ...] = ()
    source: str = ""
    """Where the figures come from, in words."""
    probed: bool = False
    """Whether they are llama.cpp's own."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DownloadFile:
    role: str
    name: str
    done: int
    total: int
    rate: float
    """Bytes per second."""
    stage: str
    """`waiting`, `downloading`, `verifying`, `done`."""


@dataclass(frozen=True, slots=True)
class Download:
    """One pair that is, was or will be fetched."""

    id: str
    state: str
    """`planning`, `running`, `paused`, `done`, `failed` or `cancelled`."""
    files: tuple[DownloadFile, ...] = ()
    message: str = ""
    hint: str = ""

    @property
    def done(self) -> int:
        return sum(file.done for file in self.files)

    @property
    def total(self) -> int:
        return sum(file.total for file in self.files)

    @property
    def rate(self) -> float:
        return sum(file.rate for file in self.files)

    @property
    def is_active(self) -> bool:
        return self.state in ("planning", "running", "paused")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How answers are made; kept between starts."""

    system: str = ""
    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = None
    draft_max: int | None = None


@dataclass(frozen=True, slots=True)
class LoadedView:
    """What is in memory now."""

    id: str
    name: str
    """Of the target, for people."""
    n_ctx: int
    has_draft: bool
    description: str = ""
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BenchChoice:
    """What to measure."""

    methods: tuple[str, ...] = ("plain", "ngram", "auto")
    workloads: tuple[str, ...] = ()
    prompts: int = 2
    """Of each workload."""
    max_tokens: int = 96
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class BenchBar:
    """One bar of the chart."""

    label: str
    """The workload; `all` for the mean over everything."""
    method: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BenchView:
    """Everything measured so far."""

    done: int
    total: int
    now: str
    """What runs at the moment."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    bars: tuple[BenchBar, ...] = ()
    sentence: str = ""
    finished: bool = False


@dataclass(frozen=True, slots=True)
class BenchEntry:
    """An older result of the same pair."""

    when: str
    speedups: tuple[tuple[str, float], ...]
    """Method and geometric mean."""
    settings: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the log and doctor screen."""

    name: str
    value: str
    level: str = ""
    """Empty, `good`, `warn` or `bad`."""


@dataclass(frozen=True, slots=True)
class FactGroup:
    title: str
    facts: tuple[Fact, ...] = field(default_factory=tuple)
