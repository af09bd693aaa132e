"""A backend for tests of the screens: a machine with a card, twelve pairs, answers from a script.

Everything is deterministic; `calls` keeps what the screens asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from localspec.chats.conversation import Turn
from localspec.chats.store import ChatStore
from localspec.errors import LocalspecError
from localspec.events import (
    Answer,
    DrafterCounts,
    LoadProgress,
    Notice,
    PromptProgress,
    RoundDone,
    Speculation,
    TextDelta,
    TextSpan,
    Timings,
)
from localspec.tui.backend.contract import AnswerEvent
from localspec.tui.backend.views import (
    BenchBar,
    BenchChoice,
    BenchEntry,
    BenchView,
    ChatSettings,
    DeviceView,
    Download,
    DownloadFile,
    Fact,
    FactGroup,
    FileView,
    FitBrief,
    FitChoice,
    FitDevice,
    FitPart,
    FitReport,
    FitSuggestion,
    LoadedView,
    MachineView,
    ModelRow,
)
from localspec.units import GIB, MIB

GB = 10**9
ANSWER = """\
Here is a compact version:

```python
class Node:
    \"\"\"One key with its two subtrees.\"\"\"

    def __init__(self, key):
        self.key = key
        self.left = self.right = None


def insert(node, key):
    if node is None:
        return Node(key)
    if key < node.key:
        node.left = insert(node.left, key)
    else:
        node.right = insert(node.right, key)
    return node
```

It keeps three promises:

1. **Order**: everything left of a node is smaller.
2. *No duplicates are lost*: equal keys go right.
3. `insert` returns the new root, so an empty tree needs no special case.

| operation | average | worst |
|---|---:|---:|
| insert | O(log n) | O(n) |
| find | O(log n) | O(n) |
"""
QUANTS = ("Q4_K_M", "Q5_K_M", "Q4_K_S", "Q3_K_M")
THOUGHT = "The user wants a binary search tree. A recursive insert is short and clear."


def rows() -> list[ModelRow]:
    """Twelve pairs of every kind."""

    def file(role: str, name: str, size: float | None, here: bool, licence: str = "") -> FileView:
        return FileView(role, name, int(size * GB) if size else None, here, licence)

    small = file("draft", "Qwen3-0.6B Q4_K_M", 0.48, False, "Apache-2.0")
    return [
        ModelRow(
            "smollm2-135m",
            "ngram",
            file("target", "SmolLM2-135M-Instruct Q4_1", 0.098, True, "Apache-2.0"),
            gain=1.12,
        ),
        ModelRow(
            "qwen3-8b+0.6b",
            "draft",
            file("target", "Qwen3-8B Q4_K_M", 5.03, True, "Apache-2.0"),
            replace(small, on_disk=True),
            gain=1.93,
            reported="1.6x (llama.cpp pull request, RTX 3090)",
        ),
        ModelRow(
            "qwen3-32b+0.6b",
            "draft",
            file("target", "Qwen3-32B Q4_K_M", 19.8, True, "Apache-2.0"),
            small,
            reported="+115 % (RTX 3090, user report)",
            note="The best pair for a 24 GiB card.",
            drafts=("qwen3-32b+1.7b",),
        ),
        ModelRow(
            "qwen3-32b+1.7b",
            "draft",
            file("target", "Qwen3-32B Q4_K_M", 19.8, True, "Apache-2.0"),
            file("draft", "Qwen3-1.7B Q4_K_M", 1.11, False, "Apache-2.0"),
            drafts=("qwen3-32b+0.6b",),
        ),
        ModelRow(
            "qwen3.6-27b+dflash",
            "dflash",
            file("target", "Qwen3.6-27B Q4_K_M", 16.9, False, "Apache-2.0"),
            file("draft", "Qwen3.6-27B-DFlash", 2.0, False, "Apache-2.0"),
            built=False,
        ),
        ModelRow(
            "qwen3-coder-30b-a3b",
            "ngram",
            file("target", "Qwen3-Coder-30B-A3B Q4_K_M", 18.6, False, "Apache-2.0"),
        ),
        ModelRow(
            "qwen2.5-coder-32b+0.5b",
            "draft",
            file("target", "Qwen2.5-Coder-32B Q5_K_M", 23.3, False, "Apache-2.0"),
            file("draft", "Qwen2.5-Coder-0.5B Q8_0", 0.53, False, "Apache-2.0"),
        ),
        ModelRow(
            "gemma-3-27b+1b",
            "draft",
            file("target", "Gemma-3-27B Q4_K_M", 16.5, False, "gemma"),
            file("draft", "Gemma-3-1B Q4_K_M", 0.81, True, "gemma"),
        ),
        ModelRow(
            "deepseek-r1-32b+1.5b",
            "draft",
            file("target", "DeepSeek-R1-Distill-Qwen-32B Q4_K_M", 19.9, False, "MIT"),
            file("draft", "DeepSeek-R1-Distill-Qwen-1.5B Q4_K_M", 1.12, False, "MIT"),
        ),
        ModelRow("gpt-oss-20b", "ngram", file("target", "gpt-oss-20b MXFP4", None, False)),
        ModelRow(
            "llama-3.1-70b+8b",
            "draft",
            file("target", "Llama-3.1-70B Q4_K_M", 42.5, False, "llama3.1"),
            file("draft", "Llama-3.1-8B Q4_K_M", 4.92, False, "llama3.1"),
        ),
        ModelRow(
            "/home/me/models/mistral-small-24b.gguf",
            "ngram",
            file("target", "mistral-small-24b", 14.3, True),
        ),
    ]


FITS = {
    "smollm2-135m": FitBrief("fits", "✓ 8 k ctx", "fits with up to 8,192 tokens of context"),
    "qwen3-8b+0.6b": FitBrief("fits", "✓ 131 k ctx", "fits with up to 131,072 tokens of context"),
    "qwen3-32b+0.6b": FitBrief("fits", "✓ 14 k ctx", "fits with up to 14,336 tokens of context"),
    "qwen3-32b+1.7b": FitBrief("tight", "~ 3 k ctx", "fits with a context of 3,072 tokens"),
    "qwen2.5-coder-32b+0.5b": FitBrief("short", "✗ −1.1 GiB", "1.1 GiB too much for RTX 4090"),
    "llama-3.1-70b+8b": FitBrief("short", "✗ −22.4 GiB", "22.4 GiB too much for RTX 4090"),
    "gpt-oss-20b": FitBrief("unknown", "–", "its size is not known yet; f reads the header"),
}


class FakeDownloads:
    """Nothing moves by itself; `advance` does."""

    def __init__(self) -> None:
        self._items: dict[str, Download] = {}
        self.calls: list[tuple[str, str]] = []

    def items(self) -> tuple[Download, ...]:
        return tuple(self._items.values())

    def put(self, item: Download) -> None:
        self._items[item.id] = item

    def advance(self, model: str, *, done: bool = True) -> None:
        item = self._items[model]
        files = tuple(replace(file, done=file.total, stage="done") for file in item.files)
        self.put(replace(item, state="done" if done else item.state, files=files))

    def fail(self, model: str, message: str, hint: str) -> None:
        self.put(replace(self._items[model], state="failed", message=message, hint=hint))

    def start(self, model: str) -> None:
        self._call("start", model)
        file = DownloadFile("target", f"{model} Q4_K_M", GB, 4 * GB, 42e6, "downloading")
        self.put(Download(model, "running", (file,)))

    def pause(self, model: str) -> None:
        self._call("pause", model)
        self.put(replace(self._items[model], state="paused"))

    def resume(self, model: str) -> None:
        self._call("resume", model)
        self.put(replace(self._items[model], state="running"))

    def cancel(self, model: str) -> None:
        self._call("cancel", model)
        self.put(replace(self._items[model], state="cancelled", message="what arrived is kept"))

    def forget(self, model: str) -> None:
        self._call("forget", model)
        self._items.pop(model, None)

    def _call(self, name: str, model: str) -> None:
        self.calls.append((name, model))


def some_downloads() -> tuple[Download, ...]:
    """One of every state."""
    return (
        Download("gemma-3-27b+1b", "done", (DownloadFile("target", "x", GB, GB, 0.0, "done"),)),
        Download("gpt-oss-20b", "failed", (), "the Hub does not answer", "r tries again"),
        Download(
            "qwen3-8b+0.6b",
            "paused",
            (
                DownloadFile("target", "Qwen3-8B Q4_K_M", 3 * GB, 5 * GB, 0.0, "downloading"),
                DownloadFile("draft", "Qwen3-0.6B Q4_K_M", 480 * 10**6, 480 * 10**6, 0.0, "done"),
            ),
        ),
        Download(
            "qwen3-32b+0.6b",
            "running",
            (
                DownloadFile("target", "Qwen3-32B Q4_K_M", 8 * GB, 19 * GB, 61e6, "downloading"),
                DownloadFile(
                    "draft", "Qwen3-0.6B Q4_K_M", 300 * 10**6, 480 * 10**6, 9e6, "verifying"
                ),
            ),
        ),
    )


@dataclass
class Script:
    """How the fake engine behaves."""

    text: str = ANSWER
    thinking: str = ""
    piece: int = 24
    """Characters of each event."""
    wait_s: float = 0.0
    """Between events."""
    error: LocalspecError | None = None
    """Raised in the middle of the answer."""
    load_error: LocalspecError | None = None
    hold: asyncio.Event | None = None
    """When there is one, answers wait for it after their first half."""


class FakeBench:
    def __init__(self, what: BenchChoice) -> None:
        self.what = what
        self.cancelled = False
        self.release = asyncio.Event()

    def cancel(self) -> None:
        self.cancelled = True
        self.release.set()

    async def run(self, on_change: Callable[[BenchView], None]) -> BenchView:
        view = bench_view()
        on_change(replace(view, done=14, total=24, now="auto · edit", sentence="", finished=False))
        await self.release.wait()
        if self.cancelled:
            return replace(view, now="stopped", finished=True)
        return replace(view, done=24, total=24, now="done", finished=True)


def bench_view() -> BenchView:
    figures = {"chat": (0.98, 1.02, 1.08), "code": (1.5, 1.94, 2.6), "edit": (1.7, 2.3, 3.1)}
    bars = []
    for workload, (low, value, high) in figures.items():
        bars.append(BenchBar(workload, "ngram", value * 0.8, low * 0.78, high * 0.8))
        bars.append(BenchBar(workload, "auto", value, low, high))
    bars.append(BenchBar("all", "ngram", 1.32, 0.76, 2.5))
    bars.append(BenchBar("all", "auto", 1.66, 0.98, 3.1))
    columns = (
        "METHOD",
        "CHAT",
        "CODE",
        "EDIT",
        "ALL",
        "TOK/S",
        "ACC.",
        "/ROUND",
        "SAME",
    )
    return BenchView(
        done=24,
        total=24,
        now="done",
        columns=columns,
        rows=(
            ("plain", "1.00×", "1.00×", "1.00×", "1.00×", "24.6", "–", "1.00", "6/6"),
            ("ngram", "0.82×", "1.55×", "1.84×", "1.32×", "32.5", "48 %", "1.71", "6/6"),
            ("auto", "1.02×", "1.94×", "2.30×", "1.66×", "40.8", "71 %", "2.44", "6/6"),
        ),
        bars=tuple(bars),
        sentence="On this machine auto is 1.7× plain on average and 1.0× at worst (chat-2); most "
        "of it comes from the draft model on edit. Every answer was identical to plain decoding's.",
        finished=True,
    )


@dataclass
class FakeBackend:
    """Fulfils `localspec.tui.backend.contract.Backend`."""

    folder: Path
    script: Script = field(default_factory=Script)
    state: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    missing_models: set[str] = field(default_factory=set)
    quants_online: bool = False
    """Whether the Hub answers and has other quantisations."""
    has_quants: bool = False
    probe_error: LocalspecError | None = None
    machine_view: MachineView = field(
        default_factory=lambda: MachineView(
            devices=(DeviceView("RTX 4090", "gpu", 24 * GIB, int(22.6 * GIB)),),
            ram_total=64 * GIB,
            ram_free=51 * GIB,
            cpu="AMD Ryzen 9 7950X",
            build="llama.cpp b6900",
        )
    )

    def __post_init__(self) -> None:
        self.downloads = FakeDownloads()
        self.chats = ChatStore(self.folder / "chats")
        self.benches: list[FakeBench] = []
        self.closed = False
        self._loaded: LoadedView | None = None
        self._stopped = asyncio.Event()

    def machine(self) -> MachineView:
        return self.machine_view

    def learned_ngrams(self) -> int:
        return 41_300

    def models(self) -> list[ModelRow]:
        return rows()

    def fit_brief(self, model: str) -> FitBrief:
        return FITS.get(model, FitBrief("fits", "✓ 32 k ctx", "fits"))

    def fit(self, model: str, choice: FitChoice) -> FitReport:
        self.calls.append(("fit", choice))
        report = fit_report(choice)
        return replace(report, quants=QUANTS) if self.has_quants else report

    def probe(self, model: str, choice: FitChoice) -> FitReport:
        self.calls.append(("probe", choice))
        if self.probe_error is not None:
            raise self.probe_error
        report = replace(fit_report(choice), source="from llama.cpp itself", probed=True)
        return replace(report, quants=QUANTS) if self.has_quants else report

    def find_quants(self, model: str) -> bool:
        self.has_quants = self.quants_online
        return self.has_quants

    def missing(self, model: str) -> bool:
        return model in self.missing_models

    def has_draft(self, model: str) -> bool:
        return "+" in model

    def remove(self, model: str) -> str:
        self.calls.append(("remove", model))
        return "5.5 GB freed"

    @property
    def loaded(self) -> LoadedView | None:
        return self._loaded

    async def load(
        self,
        model: str,
        choice: FitChoice,
        method: str,
        on_event: Callable[[LoadProgress | Notice], None],
    ) -> LoadedView:
        self.calls.append(("load", (model, choice)))
        on_event(LoadProgress("target", 0.5))
        if self.script.load_error is not None:
            raise self.script.load_error
        name = next((row.target.name for row in rows() if row.id == model), model)
        self._loaded = LoadedView(model, name, 14336, self.has_draft(model), "test", 1.2)
        return self._loaded

    async def answer(
        self, turns: tuple[Turn, ...], settings: ChatSettings, method: str
    ) -> AsyncIterator[AnswerEvent]:
        self.calls.append(("answer", (turns, settings, method)))
        self._stopped.clear()
        script = self.script
        yield PromptProgress(40, 40, 0)
        if script.thinking:
            yield TextDelta((TextSpan(script.thinking, False, True),))
        pieces = [
            script.text[i : i + script.piece] for i in range(0, len(script.text), script.piece)
        ]
        said = ""
        for index, piece in enumerate(pieces):
            if index == len(pieces) // 2:
                if script.error is not None:
                    raise script.error
                if script.hold is not None:
                    await script.hold.wait()
            await asyncio.sleep(script.wait_s)
            if self._stopped.is_set():
                break
            said += piece
            drafted = method != "none" and index % 3 != 0
            yield TextDelta((TextSpan(piece, drafted),))
            tokens = (index + 1) * 6
            yield RoundDone(
                tokens,
                (index + 1) * 2,
                (index + 1) * 6,
                (index + 1) * 4,
                tokens / 48.0,
                200 + tokens,
            )
        yield self._whole(said, method, script.thinking)

    def _whole(self, text: str, method: str, thinking: str) -> Answer:
        tokens = max(2, len(text) // 4)
        rate = {"none": 24.6, "ngram": 31.0, "model": 41.5, "auto": 47.2}[method]
        speculation = Speculation(method)
        if method != "none":
            speculation = Speculation(
                method,
                rounds=tokens // 3,
                drafted=tokens * 14 // 15,
                accepted=tokens * 2 // 3,
                accepted_per_position=(88, 74, 61, 48),
                drafted_per_position=(100, 100, 100, 100),
                by_drafter={
                    "model": DrafterCounts(tokens // 4, tokens // 2, tokens * 4 // 9),
                    "ngram": DrafterCounts(tokens // 9, tokens // 3, tokens * 2 // 9),
                },
            )
        reason = "cancelled" if self._stopped.is_set() else "stop"
        timings = Timings(0.0, 0.2, tokens / rate, 40, tokens)
        return Answer(
            "fake", text, thinking, tuple(range(tokens)), reason, 40, 0, timings, speculation
        )

    async def stop(self) -> None:
        self.calls.append(("stop", None))
        self._stopped.set()
        if self.script.hold is not None:
            self.script.hold.set()

    async def plain_rate(self) -> float | None:
        return 24.6

    async def unload(self) -> None:
        self._loaded = None

    def bench(self, model: str, choice: FitChoice, what: BenchChoice) -> FakeBench:
        self.calls.append(("bench", (model, what)))
        self.benches.append(FakeBench(what))
        return self.benches[-1]

    def workloads(self) -> tuple[tuple[str, str], ...]:
        return (
            ("chat", "Conversation"),
            ("code", "Writing code"),
            ("edit", "Editing code"),
            ("json", "JSON extraction"),
            ("logs", "Log analysis"),
        )

    def bench_history(self, model: str) -> tuple[BenchEntry, ...]:
        return (
            BenchEntry("2026-05-02T10:00:00+00:00", (("plain", 1.0), ("auto", 1.61)), "chat, code"),
        )

    def doctor(self) -> tuple[FactGroup, ...]:
        return (
            FactGroup(
                "This machine",
                (
                    Fact("processor", "AMD Ryzen 9 7950X"),
                    Fact("memory", "51.0 GiB free of 64.0 GiB"),
                ),
            ),
            FactGroup("Devices", (Fact("CUDA0", "RTX 4090 · 22.6 GiB free of 24.0 GiB", "good"),)),
            FactGroup(
                "llama.cpp",
                (Fact("version", "b6900"), Fact("GPU offload", "yes", "good")),
            ),
            FactGroup(
                "Memory: plan and reality",
                (
                    Fact("planned, RTX 4090", "22.0 GiB"),
                    Fact("measured, CUDA0", "22.1 GiB"),
                ),
            ),
        )

    def log(self) -> list[str]:
        return [
            "llama_model_loader: loaded meta data with 28 key-value pairs and 707 tensors",
            "load_tensors: offloaded 65/65 layers to GPU",
            "llama_kv_cache: size = 2304.00 MiB (14336 cells, 64 layers), K (f16), V (f16)",
            "sched_reserve: CUDA0 compute buffer size = 307.00 MiB",
        ]

    def read_state(self) -> dict[str, Any]:
        return self.state

    def write_state(self, state: dict[str, Any]) -> None:
        self.state = state

    async def close(self) -> None:
        self.closed = True


def fit_report(choice: FitChoice) -> FitReport:
    """Qwen3-32B with a draft on a 24 GiB card: 256 KiB of cache per token."""
    n_ctx = choice.n_ctx or 8192
    per_token = 256 * 1024 // (2 if choice.kv_type == "q8_0" else 1)
    parts = [
        FitPart("target", "weights", int(18.4 * GIB)),
        FitPart("target", "kv", n_ctx * per_token),
        FitPart("target", "compute", 307 * MIB),
    ]
    if choice.use_draft:
        draft_per_token = 28 * 1024 // (2 if choice.draft_kv_type == "q8_0" else 1)
        parts += [
            FitPart("draft", "weights", 462 * MIB),
            FitPart("draft", "kv", n_ctx * draft_per_token),
        ]
    free = int(22.6 * GIB)
    device = FitDevice("RTX 4090", 24 * GIB, free, tuple(parts), 310 * MIB)
    fixed = device.required - n_ctx * (per_token + (28 * 1024 if choice.use_draft else 0))
    per = per_token + (28 * 1024 if choice.use_draft else 0)
    max_ctx = max(0, (free - fixed) // per // 256 * 256)
    q8 = replace(choice, kv_type="q8_0")
    suggestions = [
        FitSuggestion(
            "kv-type q8_0: half the KV cache, hardly less exact",
            device.required - n_ctx * per_token // 2,
            True,
            q8,
        ),
        FitSuggestion(
            "draft ngram: no draft model, n-grams help on repetitive text only",
            device.required - 462 * MIB,
            device.required - 462 * MIB <= free,
            replace(choice, use_draft=False),
        ),
    ]
    if choice.kv_type == "q8_0":
        del suggestions[0]
    return FitReport(
        choice=replace(
            choice,
            n_ctx=n_ctx,
            draft_max=choice.draft_max or 16,
            gpu_layers=65 if choice.gpu_layers is None else choice.gpu_layers,
        ),
        fits=device.headroom >= 0,
        devices=(device,),
        max_ctx=max_ctx,
        n_layers=65,
        n_ctx_train=40960,
        kv_types=("f16", "q8_0", "q4_0"),
        draft_name="Qwen3-0.6B Q4_K_M",
        vocabulary="vocabulary identical (151,936 tokens)",
        suggestions=tuple(suggestions),
        source="estimated from the file's header",
    )
