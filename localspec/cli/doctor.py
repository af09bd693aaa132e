"""`localspec doctor`: what this machine and this llama.cpp can do, and what would mend it."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from localspec import __version__
from localspec.cli.output import Output
from localspec.errors import LocalspecError
from localspec.paths import user_paths
from localspec.units import format_bytes

if TYPE_CHECKING:
    from localspec.llama.advice import Advice, Machine
    from localspec.llama.capabilities import Capabilities


def command(output: Output) -> int:
    """Inspect this machine and its llama.cpp, and say what would make it faster.

    Shows processors, memory, graphics cards and what the installed build of llama.cpp uses of
    them. When a card is here but the build runs on the CPU only, it prints the command that mends
    it. Exit code 1 means that llama.cpp does not work at all.
    """
    from localspec.llama.advice import advise, detect_machine

    output.status("asking llama.cpp")
    machine = detect_machine()
    found: Capabilities | LocalspecError
    try:
        found = _ask_library()
    except LocalspecError as error:
        found = error
    output.clear_status()
    advice = advise(machine)
    memory = _memory()
    problems = _problems(found, advice, machine)
    output.document(_document(machine, found, memory, problems))
    _show(output, machine, found, memory, problems)
    return 1 if isinstance(found, LocalspecError) else 0


def _ask_library() -> Capabilities:
    """In a child process: a library that aborts must not take this report with it."""
    from localspec.engine.child import run_in_child
    from localspec.engine.inspection import inspect_library

    found: Capabilities = run_in_child(inspect_library)
    return found


def _problems(
    found: Capabilities | LocalspecError, advice: Advice | None, machine: Machine
) -> list[dict[str, str]]:
    problems = []
    if isinstance(found, LocalspecError):
        problems.append({"problem": found.message, "command": "", "needs": found.hint})
    if advice is not None:
        problems.append(
            {"problem": advice.problem, "command": advice.command, "needs": advice.needs}
        )
    elif (
        not isinstance(found, LocalspecError)
        and machine.backends
        and not any(device.kind in ("gpu", "igpu") for device in found.devices)
    ):
        built = ", ".join(machine.backends)
        problems.append(
            {
                "problem": f"this llama.cpp is built for {built}, but finds no such device",
                "command": "",
                "needs": "a driver that works: look at nvidia-smi, vulkaninfo or rocminfo",
            }
        )
    return problems


def _memory() -> dict[str, int]:
    import psutil

    memory = psutil.virtual_memory()
    return {"total": memory.total, "available": memory.available}


def _document(
    machine: Machine,
    found: Capabilities | LocalspecError,
    memory: dict[str, int],
    problems: list[dict[str, str]],
) -> dict[str, Any]:
    paths = user_paths()
    return {
        "localspec": __version__,
        "python": platform.python_version(),
        "system": {"name": machine.system, "release": platform.release(), "arch": machine.arch},
        "memory": memory,
        "gpus": [asdict(gpu) for gpu in machine.gpus],
        "llama_cpp": None
        if isinstance(found, LocalspecError)
        else {**asdict(found), "backends": machine.backends},
        "paths": {"config": paths.config, "data": paths.data, "cache": paths.cache},
        "ok": not problems,
        "problems": problems,
    }


def _show(
    output: Output,
    machine: Machine,
    found: Capabilities | LocalspecError,
    memory: dict[str, int],
    problems: list[dict[str, str]],
) -> None:
    def row(name: str, value: str) -> None:
        output.line(f"{name:<10} {value}")

    row("localspec", f"{__version__}, Python {platform.python_version()} ({sys.executable})")
    row("system", f"{machine.system} {platform.release()}, {machine.arch}")
    row(
        "memory",
        f"{format_bytes(memory['available'])} available of {format_bytes(memory['total'])}",
    )
    for gpu in machine.gpus:
        row("card", f"{gpu.name}" + ("" if gpu.driver else " (its driver does not answer)"))
    if isinstance(found, LocalspecError):
        row("llama.cpp", "does not work")
    else:
        row("llama.cpp", found.version)
        row("built for", ", ".join(("CPU", *(name.upper() for name in machine.backends))))
        if found.cpu_features:
            row("CPU uses", " ".join(found.cpu_features))
        for device in found.devices:
            free = f", {format_bytes(device.free)} free" if device.free else ""
            total = f", {format_bytes(device.total)}{free}" if device.total else ""
            row("device", f"{device.name}: {device.description}{total}")
        row("heads", ", ".join(found.head_symbols) or "none: MTP and EAGLE need a newer build")
    paths = user_paths()
    row("models", str(paths.models))
    row("settings", str(paths.config))
    for problem in problems:
        output.line()
        output.line(output.style(f"Problem: {problem['problem']}.", "yellow bold"))
        if problem["needs"]:
            output.line(f"Needed first: {problem['needs']}")
        if problem["command"]:
            output.line("This mends it:")
            output.line()
            output.line(f"  {problem['command']}")
    if not problems:
        output.line()
        output.line(output.style("Everything that localspec needs is here.", "green"))
