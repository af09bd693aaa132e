"""Whether models go into memory: the fit calculator's answers as the screens show them."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec.errors import BadModelFile, EngineError, LocalspecError
from localspec.paths import Paths
from localspec.tui.backend.guess import guessed_size
from localspec.tui.backend.library import Library
from localspec.tui.backend.views import (
    FitBrief,
    FitChoice,
    FitDevice,
    FitPart,
    FitReport,
    FitSuggestion,
    named,
)
from localspec.units import GIB

if TYPE_CHECKING:
    from localspec.ggufmeta.header import Header
    from localspec.hub.found_header import FoundHeader
    from localspec.hub.resolve import LocalFile, Missing, ResolvedPair
    from localspec.memory.devices import Machine
    from localspec.memory.fit import Planner, Suggestion
    from localspec.memory.plan import DeviceFit, Plan
    from localspec.memory.request import ModelLoad

KV_TYPES = ("f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
"""Types of KV cache to choose from, the exact one first."""
_DEFAULT_DRAFT_MAX = 16
_ESTIMATED = "estimated from the file's header, checked against llama.cpp for every architecture"
_PROBED = "from llama.cpp itself, asked with these settings"
_USUAL_CTX = 4096
"""Tokens of context below which a pair that fits is called tight."""


class Fitting:
    """Plans by estimate, and by llama.cpp itself when asked; headers are read once.

    May be called from several threads.
    """

    def __init__(
        self, paths: Paths, library: Library, devices: Callable[[], Sequence[Any]]
    ) -> None:
        """devices: what llama.cpp reports, see `memory.devices.NativeDevice`."""
        self._paths = paths
        self._library = library
        self._devices = devices
        self._headers: dict[str, FoundHeader] = {}
        self._vocabularies: dict[str, str] = {}
        """By the pair's id: a pair's vocabularies stay the same in every quantisation."""
        self._quants: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def brief(self, model: str) -> FitBrief:
        """For a row of the table: from headers that are here, else by the sizes of the files."""
        try:
            resolved = self._library.resolve(model)
            if resolved.missing and not all(
                str(file.source) in self._headers for _, file in resolved.missing
            ):
                return self._by_size(resolved)
            report = self.report(model, FitChoice(), quick=True)
        except LocalspecError as error:
            return FitBrief("unknown", "?", error.message)
        return brief_of(report)

    def report(
        self, model: str, choice: FitChoice, *, quick: bool = False, probe: bool = False
    ) -> FitReport:
        """Everything about one choice. quick: without suggestions. probe: with the figures that
        llama.cpp itself has for it, which takes a second or more.

        Raises UsageError, BadModelFile, DownloadError when the Hub is needed and does not answer,
        and EngineError when llama.cpp cannot plan it.
        """
        from localspec.memory.fit import estimator, max_ctx_that_fits, max_gpu_layers, suggest

        resolved = self._library.resolve(named(model, choice.quant))
        found = [self._header(file) for file in (resolved.target, resolved.draft) if file]
        target = found[0].header
        draft = found[1].header if len(found) > 1 else None
        machine = self._machine()
        planner = estimator(machine)
        full = replace(choice, draft_max=choice.draft_max or resolved.draft_max)
        loads = _loads(target, draft, full)
        plan = self._probed(loads, found, machine) if probe else planner(loads)
        max_ctx = max_ctx_that_fits(loads, planner)
        suggestions: tuple[FitSuggestion, ...] = ()
        if not quick:
            layers = max_gpu_layers(loads, planner) if plan.gpus else None
            changes = suggest(loads, planner, plan, max_ctx, layers)
            suggestions = tuple(_suggestion(item, full, target, draft, planner) for item in changes)
        architecture = loads[0].architecture
        return FitReport(
            choice=replace(
                full,
                n_ctx=plan.n_ctx,
                draft_max=full.draft_max or _DEFAULT_DRAFT_MAX,
                gpu_layers=_layers(full, loads, machine),
                use_draft=choice.use_draft and draft is not None,
            ),
            fits=plan.fits,
            devices=_devices(plan),
            max_ctx=max_ctx,
            n_layers=len(architecture.layers) + 1 if machine.gpus else 0,
            n_ctx_train=architecture.n_ctx_train or plan.n_ctx,
            kv_types=KV_TYPES,
            quants=self._quants.get(model, ()),
            draft_name=resolved.draft.name if resolved.draft is not None else "",
            vocabulary=self._vocabulary(resolved.id, target, draft) if draft is not None else "",
            suggestions=suggestions,
            source=_PROBED if probe else _ESTIMATED,
            probed=probe,
            notes=resolved.notes,
        )

    def find_quants(self, model: str) -> bool:
        """Ask the Hub which quantisations of the target there are; whether there is a choice.

        Reports name them from then on.
        """
        from localspec.catalog.entries import HubSource
        from localspec.hub.client import HubClient
        from localspec.hub.names import quant_in
        from localspec.hub.remote_header import other_quants

        try:
            source = self._library.resolve(model).target.source
            if not isinstance(source, HubSource):
                return False
            others = other_quants(source, HubClient())
        except LocalspecError:
            # Without the Hub there is the file that the pair names, and nothing else to choose.
            return False
        own = quant_in(source.filename or "") or "own"
        names = [variant.quant for variant in others if variant.quant and variant.quant != own]
        self._quants[model] = (own, *dict.fromkeys(names))
        return len(self._quants[model]) > 1

    def _machine(self) -> Machine:
        from localspec.memory.calibration import Calibration
        from localspec.memory.devices import this_machine

        known = Calibration(self._paths.calibration).reserves()
        return this_machine(self._devices(), reserves=known)

    def _vocabulary(self, pair: str, target: Header, draft: Header) -> str:
        from localspec.ggufmeta.compatibility import check_pair, explain

        with self._lock:
            known = self._vocabularies.get(pair)
        if known is not None:
            return known
        try:
            found = check_pair(target, draft)
        except BadModelFile as error:
            words = error.message
        else:
            if found.difference is not None:
                words = f"vocabularies differ: {explain(found.difference)}"
            else:
                same = "identical" if found.identical else "compatible"
                words = f"vocabulary {same} ({found.target_tokens:,} tokens)"
        with self._lock:
            self._vocabularies[pair] = words
        return words

    def _probed(
        self, loads: tuple[ModelLoad, ...], found: Sequence[FoundHeader], machine: Machine
    ) -> Plan:
        """The plan by llama.cpp's own figures. Raises EngineError."""
        if sys.platform == "win32" and any(header.path is None for header in found):
            # A long file is not sparse by itself there: a ghost would fill the disk.
            raise EngineError("files that are not here can only be estimated on Windows")
        from localspec.engine.probing import probe_in_child
        from localspec.memory.probe import probe

        with tempfile.TemporaryDirectory(prefix="localspec-ghost-") as folder:
            # A file that is here answers as well as its ghost.
            ghosts = [
                header.path or header.ghost(Path(folder) / str(index))
                for index, header in enumerate(found[: len(loads)])
            ]
            return probe(loads, ghosts, machine, probe_in_child)

    def _header(self, file: LocalFile | Missing) -> FoundHeader:
        from localspec.hub.found_header import find_header
        from localspec.hub.resolve import LocalFile

        key = str(file.path) if isinstance(file, LocalFile) else str(file.source)
        with self._lock:
            known = self._headers.get(key)
        if known is not None:
            return known
        header = find_header(file, self._paths)
        with self._lock:
            self._headers[key] = header
        return header

    def _by_size(self, resolved: ResolvedPair) -> FitBrief:
        """A guess by the files' sizes, marked as one."""
        files = [file for file in (resolved.target, resolved.draft) if file is not None]
        sizes = [file.size or guessed_size(f"{file.name} {file.source}") for file in files]
        if any(size is None for size in sizes):
            return FitBrief("unknown", "–", "its size is not known yet; f reads the header")
        guessed = any(file.size is None for file in files)
        how = "guessed by its name" if guessed else "by the size of its files"
        machine = self._machine()
        free = sum(gpu.usable for gpu in machine.gpus) or machine.host.usable
        # Cache and buffers of a few thousand tokens take about a tenth of the weights.
        needed = int(sum(size or 0 for size in sizes) * 1.1) + GIB // 4
        if needed > free:
            short = (needed - free) / GIB
            return FitBrief("short", f"~ −{short:.1f} GiB", f"{how}; f reads the header")
        return FitBrief("fits", "~ fits", f"{how}; f reads the header")


def brief_of(report: FitReport) -> FitBrief:
    """`✓ 14 k ctx`, `~ 2 k ctx` or `✗ −1.1 GiB`, with a sentence."""
    if report.max_ctx == 0:
        lacking = [device for device in report.devices if device.headroom < 0]
        missing = sum(-device.headroom for device in lacking)
        where = ", ".join(device.name for device in lacking)
        return FitBrief(
            "short", f"✗ −{missing / GIB:.1f} GiB", f"{missing / GIB:.1f} GiB too much for {where}"
        )
    ctx = f"{report.max_ctx / 1024:.0f} k ctx" if report.max_ctx >= 1024 else "< 1 k ctx"
    usual = min(_USUAL_CTX, report.n_ctx_train)
    if report.max_ctx < usual:
        return FitBrief("tight", f"~ {ctx}", f"fits with a context of {report.max_ctx:,} tokens")
    return FitBrief("fits", f"✓ {ctx}", f"fits with up to {report.max_ctx:,} tokens of context")


def applied(change: str, choice: FitChoice) -> FitChoice | None:
    """`choice` with a change in the words of the command line; None for one we cannot make."""
    option, _, value = change.partition(" ")
    match option:
        case "--ctx":
            return replace(choice, n_ctx=int(value))
        case "--kv-type":
            words = value.split()
            if "--draft-kv-type" in words:
                choice = replace(choice, draft_kv_type=words[-1])
            return replace(choice, kv_type=words[0])
        case "--draft-kv-type":
            return replace(choice, draft_kv_type=value)
        case "--gpu-layers":
            return replace(choice, gpu_layers=int(value))
        case "--draft-gpu-layers":
            return replace(choice, draft_gpu_layers=int(value))
        case "--ubatch":
            return replace(choice, n_ubatch=int(value))
        case "--draft-max":
            return replace(choice, draft_max=int(value))
        case "--draft" if value == "ngram":
            return replace(choice, use_draft=False)
    return None


def _loads(target: Header, draft: Header | None, choice: FitChoice) -> tuple[ModelLoad, ...]:
    from localspec.memory.request import LoadOptions, make_loads

    options = LoadOptions(
        n_ctx=choice.n_ctx or None,
        kv_type=choice.kv_type,
        draft_kv_type=choice.draft_kv_type,
        gpu_layers=choice.gpu_layers,
        draft_gpu_layers=choice.draft_gpu_layers,
        n_ubatch=choice.n_ubatch,
        flash_attn=None,
        draft_max=choice.draft_max or _DEFAULT_DRAFT_MAX,
    )
    return make_loads(target, draft if choice.use_draft else None, options)


def _suggestion(
    item: Suggestion, choice: FitChoice, target: Header, draft: Header | None, planner: Planner
) -> FitSuggestion:
    words = item.change.removeprefix("--").replace(" --", ", ")
    text = f"{words}: {item.text}"
    changed = applied(item.change, choice)
    if changed is None:
        return FitSuggestion(text, item.required, item.fits)
    # What is shown is what applying it gives here, to the byte.
    plan = planner(_loads(target, draft, changed))
    return FitSuggestion(text, plan.required, plan.fits, changed)


def _layers(choice: FitChoice, loads: tuple[ModelLoad, ...], machine: Machine) -> int | None:
    if not machine.gpus:
        return None
    every = len(loads[0].architecture.layers) + 1
    return every if choice.gpu_layers is None else min(choice.gpu_layers, every)


def _devices(plan: Plan) -> tuple[FitDevice, ...]:
    shown = [*plan.gpus, plan.host] if plan.gpus else [plan.host]
    return tuple(_device(fit) for fit in shown)


def _device(fit: DeviceFit) -> FitDevice:
    device = fit.device
    return FitDevice(
        name=_name(device.description or device.name),
        total=device.total,
        free=device.free,
        parts=tuple(FitPart(part.model, part.kind, part.bytes) for part in fit.parts),
        overhead=device.reserve,
    )


def _name(description: str) -> str:
    return description.replace("NVIDIA ", "").replace("GeForce ", "")
