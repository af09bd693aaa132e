"""Is llama.cpp built for the graphics card that is here? Looks at files only; loads no library.

Detection gathers facts (`detect_machine`); the judgement over them (`advise`) is pure.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TESTED_LLAMA_CPP_PYTHON = "0.3.36"
"""The version of the bindings that this program is tested with (pyproject.toml pins it)."""

_GPU_LIBRARIES = {
    "ggml-cuda": "cuda",
    "ggml-metal": "metal",
    "ggml-vulkan": "vulkan",
    "ggml-hip": "rocm",
    "ggml-sycl": "sycl",
    "ggml-musa": "musa",
    "ggml-opencl": "opencl",
}
_PCI_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_COMMAND_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """A graphics card that the operating system or its driver knows."""

    vendor: str
    """`nvidia`, `amd`, `intel`, `apple`."""
    name: str
    driver: bool = True
    """Whether the driver answered; False when only the bus shows the card."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What matters for choosing a build."""

    system: str
    """`Linux`, `Darwin`, `Windows`."""
    arch: str
    """`x86_64`, `arm64`, …"""
    gpus: tuple[Gpu, ...]
    backends: tuple[str, ...]
    """GPU backends of the installed build: cuda, metal, vulkan, rocm, …; empty for CPU only."""
    installed: bool = True
    """Whether llama-cpp-python is there at all."""
    translated: bool = False
    """Whether this Python is an Intel program translated on Apple Silicon (Rosetta)."""
    tools: frozenset[str] = frozenset()
    """Which of nvcc, hipcc, glslc are found: what a build from source needs."""
    python: str = "python"
    """The interpreter to install for."""
    has_pip: bool = True


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that keeps models slow, and the way out."""

    problem: str
    """One sentence."""
    command: str
    """The exact command that mends it; empty where none can."""
    needs: str = ""
    """What has to be installed before the command works; empty when all is there."""
    backend: str = ""
    """The backend that the command builds."""


def advise(machine: Machine) -> Advice | None:
    """What to do about this machine; None when the build suits it."""
    if not machine.installed:
        return Advice("llama-cpp-python is not installed", _install(machine, ""))
    if machine.translated:
        return Advice(
            "this Python is an Intel build that runs translated on Apple Silicon, without the GPU",
            "",
            needs="an arm64 Python, such as the one from python.org, and localspec installed in it",
        )
    for gpu in sorted(machine.gpus, key=lambda gpu: _BY_WORTH.index(gpu.vendor)):
        found = _advise_for(gpu, machine)
        if found is not None:
            return found
        if gpu.vendor != "intel":
            return None
    return None


def detect_machine() -> Machine:
    """Facts about this machine and this Python; asks nvidia-smi where there is one."""
    backends = installed_backends()
    system, arch = platform.system(), platform.machine().lower()
    translated = system == "Darwin" and arch == "x86_64" and _is_translated()
    return Machine(
        system=system,
        arch=arch,
        gpus=detect_gpus(system, arch),
        backends=backends or (),
        installed=backends is not None,
        translated=translated,
        tools=frozenset(tool for tool in ("nvcc", "hipcc", "glslc") if _has_tool(tool)),
        python=sys.executable or "python",
        has_pip=importlib.util.find_spec("pip") is not None,
    )


def installed_backends() -> tuple[str, ...] | None:
    """GPU backends of the installed llama-cpp-python by its library files; None without it."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        return None
    # Its own variable for another place of the libraries (llama_cpp/llama_cpp.py).
    chosen = os.environ.get("LLAMA_CPP_LIB_PATH")
    folder = Path(chosen) if chosen else Path(spec.origin).parent / "lib"
    names = [file.name.removeprefix("lib") for file in folder.glob("*")] if folder.is_dir() else []
    return tuple(
        backend
        for library, backend in _GPU_LIBRARIES.items()
        if any(name.startswith(library) for name in names)
    )


def detect_gpus(
    system: str, arch: str, *, run: Callable[[list[str]], str | None] | None = None
) -> tuple[Gpu, ...]:
    """Graphics cards, each once. run: runs a command and returns its output, None if it fails."""
    if system == "Darwin":
        return (Gpu("apple", "Apple GPU"),) if arch == "arm64" else ()
    nvidia = _nvidia_cards(run or _run)
    others = _pci_cards(Path("/sys/class/drm")) if system == "Linux" else []
    if nvidia:
        others = [gpu for gpu in others if gpu.vendor != "nvidia"]
    return (*nvidia, *others)


_BY_WORTH = ("nvidia", "apple", "amd", "intel")


def _advise_for(gpu: Gpu, machine: Machine) -> Advice | None:
    suitable = {
        "nvidia": ("cuda", "vulkan"),
        "apple": ("metal",),
        "amd": ("rocm", "vulkan"),
        "intel": ("sycl", "vulkan"),
    }[gpu.vendor]
    if any(backend in machine.backends for backend in suitable):
        return None
    if not gpu.driver:
        return Advice(
            f"{gpu.name} is in this machine, but its driver does not answer",
            "",
            needs="the NVIDIA driver; nvidia-smi shows whether it works",
        )
    if gpu.vendor == "intel":
        # Most are part of the processor and no faster than it: not worth a warning.
        return None
    backend = suitable[0]
    needs = ""
    if gpu.vendor == "nvidia" and "nvcc" not in machine.tools:
        needs = "the CUDA toolkit (nvcc): https://developer.nvidia.com/cuda-downloads"
    elif gpu.vendor == "amd" and "hipcc" not in machine.tools:
        backend = "vulkan"
        if "glslc" not in machine.tools:
            needs = "the Vulkan SDK (glslc): https://vulkan.lunarg.com"
    elif gpu.vendor == "apple":
        needs = "the Xcode command line tools: xcode-select --install"
    return Advice(
        f"{gpu.name} is here, but this llama.cpp runs on the CPU only",
        _install(machine, backend),
        needs,
        backend,
    )


_FLAGS = {"cuda": "GGML_CUDA", "metal": "GGML_METAL", "vulkan": "GGML_VULKAN", "rocm": "GGML_HIP"}


def _install(machine: Machine, backend: str) -> str:
    """The command that builds the bindings for `backend`, in the words of the system's shell."""
    python = f'"{machine.python}"' if " " in machine.python else machine.python
    if machine.has_pip:
        install = f"{python} -m pip install --force-reinstall --no-cache-dir"
    else:
        install = f"uv pip install --python {python} --reinstall --no-cache"
    install += f" llama-cpp-python=={TESTED_LLAMA_CPP_PYTHON}"
    if not backend:
        return install
    arguments = f"-D{_FLAGS[backend]}=on"
    if machine.system == "Windows":
        call = "& " if python.startswith('"') else ""
        return f'$env:CMAKE_ARGS="{arguments}"; {call}{install}'
    return f'CMAKE_ARGS="{arguments}" {install}'


def _nvidia_cards(run: Callable[[list[str]], str | None]) -> list[Gpu]:
    listed = run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    if listed is None and Path("/usr/lib/wsl/lib/nvidia-smi").exists():
        listed = run(["/usr/lib/wsl/lib/nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    if listed is not None:
        return [Gpu("nvidia", line.strip()) for line in listed.splitlines() if line.strip()]
    cards = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        text = _read(file)
        model = next((li for li in text.splitlines() if li.startswith("Model:")), "Model: NVIDIA")
        cards.append(Gpu("nvidia", model.partition(":")[2].strip()))
    return cards


def _pci_cards(folder: Path) -> list[Gpu]:
    """Cards that Linux shows on the bus, whether or not a driver serves them for computing."""
    cards: dict[Path, Gpu] = {}
    for card in sorted(folder.glob("card[0-9]*")):
        vendor = _PCI_VENDORS.get(_read(card / "device" / "vendor").strip())
        if vendor is not None:
            # An NVIDIA card that nvidia-smi did not list has no working driver.
            name = {"nvidia": "an NVIDIA card", "amd": "an AMD card", "intel": "an Intel GPU"}
            cards[(card / "device").resolve()] = Gpu(vendor, name[vendor], vendor != "nvidia")
    return list(cards.values())


def _is_translated() -> bool:
    return (_run(["sysctl", "-n", "sysctl.proc_translated"]) or "").strip() == "1"


def _has_tool(name: str) -> bool:
    places = {
        "nvcc": [os.environ.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local/cuda"],
        "hipcc": [os.environ.get("ROCM_PATH", "/opt/rocm"), "/opt/rocm"],
    }.get(name, [])
    return shutil.which(name) is not None or any(
        (Path(place) / "bin" / name).exists() for place in places
    )


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
