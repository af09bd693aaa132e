"""From names and options to answers: which machine, which headers, which figures."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.cli.output import Output
from localspec.errors import DownloadError, EngineError, UsageError
from localspec.memory.request import LoadOptions
from localspec.units import parse_memory

if TYPE_CHECKING:
    from localspec.catalog.entries import HubSource
    from localspec.cli.engine_options import DraftChoice
    from localspec.cli.fit_head import HeadCost
    from localspec.cli.headers import FoundPair
    from localspec.memory.devices import Machine
    from localspec.memory.fit import Fit, SmallerFile
    from localspec.memory.plan import Plan
    from localspec.memory.request import ModelLoad

DEFAULT_DRAFT_MAX = 16


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about every model."""

    draft: DraftChoice
    draft_max: int | None
    options: LoadOptions
    machine: Machine
    source: str
    projector: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told about one model."""

    id: str
    fit: Fit
    machine: Machine
    notes: tuple[str, ...] = ()
    head: HeadCost | None = None
    """What the pair's head would add; it is not counted, since nothing loads it."""


def answer_question(name: str, question: Question, output: Output) -> Answer:
    """Everything about `name`.

    Raises UsageError, BadModelFile, IncompatiblePair, DownloadError, EngineError.
    """
    from localspec.catalog.load import load_catalog
    from localspec.cli.fit_checks import check_draft
    from localspec.cli.fit_head import head_cost
    from localspec.cli.headers import find_pair
    from localspec.cli.memory_glance import weight_budget
    from localspec.ggufmeta.compatibility import require_pair
    from localspec.memory.fit import answer, estimator
    from localspec.memory.request import make_loads
    from localspec.paths import user_paths

    paths = user_paths()
    output.status(f"reading the header of {name}")
    # The same choice as `pull` makes here, or would make on the machine that is asked about.
    machine = question.machine if question.machine.imagined else None
    pair = find_pair(
        name,
        question.draft,
        load_catalog(paths),
        paths,
        lambda resolved: weight_budget(resolved, paths, machine),
    )
    check_draft(question.draft.method, has_draft=pair.draft is not None)
    if pair.draft is not None:
        require_pair(pair.target.header, pair.draft.header)
    draft_max = question.draft_max or pair.resolved.draft_max or DEFAULT_DRAFT_MAX
    options = replace(question.options, draft_max=draft_max)
    loads = make_loads(
        pair.target.header, pair.draft.header if pair.draft is not None else None, options
    )
    planner = estimator(question.machine, question.projector)
    plan, notes = None, list(pair.resolved.notes)
    id_, chosen = pair.resolved.id, _chosen_file(pair)
    if chosen is not None:
        id_ = str(chosen)
        where = "the machine asked about" if machine else "this machine"
        notes.append(f"{chosen.filename} is the quantisation chosen for {where}")
    most = loads[0].architecture.n_ctx_train
    if loads[0].n_ctx > most > 0:
        notes.append(f"the model was trained on {most} tokens of context at most")
    if _wants_probe(question, pair):
        output.status(f"asking llama.cpp about {name}")
        try:
            plan = _probe(loads, pair, question)
        except EngineError as error:
            if question.source == "probe":
                raise
            notes.append(f"estimated, because the probe failed: {error.message}")
    asked = plan if plan is not None else planner(loads)
    if asked.source == "estimate":
        notes += unproved(loads, question.machine)
    smaller = [] if asked.fits else _smaller_files(pair)
    fit = answer(loads, planner, plan=asked, smaller=smaller)
    head = (
        None if question.draft.model else head_cost(pair.resolved.pair, asked.n_ctx, options, paths)
    )
    output.clear_status()
    return Answer(id_, fit, question.machine, tuple(notes), head)


def unproved(loads: Sequence[ModelLoad], machine: Machine) -> list[str]:
    """What to say of models whose estimate no test holds against llama.cpp."""
    from localspec.memory.held import HELD

    names = dict.fromkeys(load.architecture.name for load in loads)
    way_out = "" if machine.imagined else "; --source probe asks llama.cpp itself"
    return [
        f"the estimate of {name} models was never held against llama.cpp: weights are exact, "
        f"caches and buffers may be off{way_out}"
        for name in names
        if name not in HELD
    ]


def make_machine(output: Output, *, vram: str, ram: str, unified: str, card: str) -> Machine:
    """The imagined machine of the options, or this one. Raises UsageError."""
    from localspec.memory.cards import find_card
    from localspec.memory.devices import imagined_machine, this_machine

    if sum(map(bool, (vram, unified, card))) > 1:
        raise UsageError(
            "--vram, --unified and --card exclude each other", hint="say the machine in one way"
        )
    if unified and ram:
        raise UsageError("--unified is all the memory there is", hint="leave --ram out")
    memory = parse_memory(ram, "--ram") if ram else None
    if vram or unified or card:
        return imagined_machine(
            vram=[parse_memory(size, "--vram") for size in vram.split(",")] if vram else (),
            unified=parse_memory(unified, "--unified") if unified else None,
            ram=memory,
            card=find_card(card) if card else None,
        )
    if memory is not None:
        return imagined_machine(ram=memory)
    output.status("asking llama.cpp for its devices")
    from localspec.engine.child import run_in_child
    from localspec.engine.inspection import inspect_library
    from localspec.memory.calibration import Calibration
    from localspec.paths import user_paths

    known = Calibration(user_paths().calibration).reserves()
    try:
        return this_machine(run_in_child(inspect_library).devices, reserves=known)
    except EngineError as error:
        output.warn(f"{error.message}; counting host memory only", hint="localspec doctor")
        return this_machine(())


def _wants_probe(question: Question, pair: FoundPair) -> bool:
    if question.source == "estimate":
        return False
    reason = ""
    if question.machine.imagined:
        reason = "llama.cpp can only plan for the devices that are here"
    elif sys.platform == "win32" and any(
        found is not None and found.path is None for found in (pair.target, pair.draft)
    ):
        # A long file is not sparse by itself there: a ghost would fill the disk.
        reason = "files that are not here can only be estimated on Windows"
    if reason and question.source == "probe":
        raise UsageError(f"--source probe does not go with this: {reason}", hint="--source auto")
    return not reason


def _probe(loads: Sequence[ModelLoad], pair: FoundPair, question: Question) -> Plan:
    from localspec.engine.probing import probe_in_child
    from localspec.memory.plan import Part, assemble
    from localspec.memory.probe import probe

    with tempfile.TemporaryDirectory(prefix="localspec-ghost-") as folder:
        ghosts: list[Path] = []
        for index, found in enumerate((pair.target, pair.draft)):
            if found is not None:
                # A file that is here answers as well as its ghost.
                ghosts.append(found.path or found.ghost(Path(folder) / str(index)))
        plan = probe(loads, ghosts, question.machine, probe_in_child)
    if not question.projector:
        return plan
    parts = [
        (index, part) for index, fit in enumerate((*plan.gpus, plan.host)) for part in fit.parts
    ]
    parts.append((0, Part("projector", "weights", question.projector)))
    return assemble(plan.loads, plan.placements, question.machine, parts, plan.source)


def _chosen_file(pair: FoundPair) -> HubSource | None:
    """The file that was measured, where the name left the choice of it to us."""
    from localspec.catalog.entries import HubSource
    from localspec.hub.resolve import Missing

    target = pair.resolved.target
    if not isinstance(target, Missing) or not isinstance(target.source, HubSource):
        return None
    if target.source.filename is not None or target.source.quant is not None:
        return None
    return pair.target.source if isinstance(pair.target.source, HubSource) else None


def _smaller_files(pair: FoundPair) -> list[SmallerFile]:
    """Smaller quantisations of the target's repository, as far as the Hub tells."""
    from localspec.catalog.entries import HubSource
    from localspec.hub.client import HubClient
    from localspec.hub.failures import RetryPolicy
    from localspec.hub.remote_header import other_quants
    from localspec.memory.fit import SmallerFile

    source = pair.target.source
    if not isinstance(source, HubSource):
        return []
    size = pair.target.header.tensor_bytes
    try:
        others = other_quants(source, HubClient(RetryPolicy(attempts=1, patient_attempts=1)))
    except DownloadError:
        # Suggestions are a courtesy; the answer stands without them.
        return []
    return [SmallerFile(f"{source.repo}:{v.quant}", v.size) for v in others if v.size < size]
