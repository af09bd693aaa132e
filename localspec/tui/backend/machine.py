"""This machine, as far as it can be asked quickly; llama.cpp is asked in a child process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.errors import LocalspecError
from localspec.tui.backend.views import DeviceView, Fact, FactGroup, FitReport, MachineView
from localspec.units import format_bytes

if TYPE_CHECKING:
    from localspec.llama.capabilities import Capabilities


def machine_view(found: Capabilities | None) -> MachineView:
    """found: what the build of llama.cpp says; None when it could not be asked."""
    import psutil

    from localspec.bench.machine import this_machine

    memory = psutil.virtual_memory()
    machine = this_machine(devices=())
    devices = tuple(
        DeviceView(
            _short(device.description or device.name), device.kind, device.total, device.free
        )
        for device in (found.devices if found else ())
        if device.kind in ("gpu", "igpu")
    )
    advice, command = _advice()
    return MachineView(
        devices=devices,
        ram_total=memory.total,
        ram_free=memory.available,
        cpu=_short(machine.cpu),
        build=found.version if found else "",
        advice=advice,
        command=command,
    )


def ask_capabilities() -> Capabilities | None:
    """What this build of llama.cpp can do, asked in a child process; None when that fails."""
    from localspec.engine.child import run_in_child
    from localspec.engine.inspection import inspect_library

    try:
        found: Capabilities = run_in_child(inspect_library)
    except LocalspecError:
        return None
    return found


def doctor_groups(found: Capabilities | None, view: MachineView) -> tuple[FactGroup, ...]:
    """The facts of the log and doctor screen."""
    machine = [
        Fact("processor", view.cpu or "unknown"),
        Fact("memory", f"{format_bytes(view.ram_free)} free of {format_bytes(view.ram_total)}"),
    ]
    groups = [FactGroup("This machine", tuple(machine))]
    if found is None:
        fact = Fact("llama.cpp", "cannot be loaded; see localspec doctor", "bad")
        return (*groups, FactGroup("llama.cpp", (fact,)))
    devices = tuple(
        Fact(
            device.name,
            f"{device.description} · {format_bytes(device.free)} free of "
            f"{format_bytes(device.total)}",
            "good" if device.kind in ("gpu", "igpu") else "",
        )
        for device in found.devices
    )
    groups.append(FactGroup("Devices", devices or (Fact("devices", "none reported", "warn"),)))
    build = [
        Fact("version", found.version),
        Fact(
            "GPU offload",
            "yes" if found.supports_gpu_offload else "no: this build computes on the CPU",
            "good" if found.supports_gpu_offload else "warn",
        ),
        Fact("CPU features", ", ".join(found.cpu_features) or "none reported"),
        Fact("heads", ", ".join(found.head_symbols) or "none"),
    ]
    groups.append(FactGroup("llama.cpp", tuple(build)))
    if view.advice:
        mend = (Fact("advice", view.advice, "warn"), Fact("command", view.command))
        groups.append(FactGroup("To mend", mend))
    return tuple(groups)


def memory_groups(plan: FitReport | None, pid: int | None) -> tuple[FactGroup, ...]:
    """The memory plan of what is loaded, against what the engine's process really holds."""
    if plan is None or pid is None:
        return ()
    import psutil

    facts = [
        Fact(f"planned, {device.name}", format_bytes(device.required)) for device in plan.devices
    ]
    try:
        held = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        held = 0
    if held:
        facts.append(Fact("engine's process", f"{format_bytes(held)} of RAM, mapped files too"))
    from localspec.memory.devices import nvidia_processes

    for index, used in enumerate(nvidia_processes()):
        if pid in used:
            facts.append(Fact(f"measured, CUDA{index}", format_bytes(used[pid])))
    return (FactGroup("Memory: plan and reality", tuple(facts)),)


def _advice() -> tuple[str, str]:
    """A sentence and a command when something here keeps models slow."""
    from localspec.llama.advice import advise, detect_machine

    found = advise(detect_machine())
    if found is None:
        return "", ""
    needs = f"; it needs {found.needs}" if found.needs else ""
    return f"{found.problem}{needs}", found.command


def _short(name: str) -> str:
    """`NVIDIA GeForce RTX 4090` as `RTX 4090`; trademark signs say nothing here."""
    for word in ("NVIDIA ", "GeForce ", "(R)", "(TM)", " Processor", " CPU"):
        name = name.replace(word, "")
    return " ".join(name.split("@")[0].split())


def learned_ngrams(folder: Path) -> int:
    """N-grams in all lookup caches of a folder, by the notes beside them; 0 without any."""
    count = 0
    for path in folder.glob("*.json"):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))["ngrams"]
        except (OSError, ValueError, KeyError, TypeError):
            # Not ours, or damaged: the cache itself tells when it is loaded.
            continue
        count += told if isinstance(told, int) else 0
    return count
