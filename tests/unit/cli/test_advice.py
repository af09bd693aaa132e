"""What doctor says about every combination of card, build and tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localspec.llama.advice import (
    TESTED_LLAMA_CPP_PYTHON,
    Advice,
    Gpu,
    Machine,
    advise,
    detect_gpus,
    detect_machine,
)

NVIDIA = Gpu("nvidia", "NVIDIA GeForce RTX 4090")
APPLE = Gpu("apple", "Apple GPU")
AMD = Gpu("amd", "an AMD card")
INTEL = Gpu("intel", "an Intel GPU")
PIN = f"llama-cpp-python=={TESTED_LLAMA_CPP_PYTHON}"


def machine(
    *gpus: Gpu,
    system: str = "Linux",
    backends: tuple[str, ...] = (),
    tools: tuple[str, ...] = (),
    **others: object,
) -> Machine:
    return Machine(
        system,
        "arm64" if system == "Darwin" else "x86_64",
        gpus,
        backends,
        tools=frozenset(tools),
        **others,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "suited",
    [
        machine(),
        machine(INTEL),
        machine(NVIDIA, backends=("cuda",)),
        machine(NVIDIA, INTEL, backends=("cuda",)),
        machine(NVIDIA, backends=("vulkan",)),
        machine(AMD, backends=("rocm",)),
        machine(AMD, backends=("vulkan",)),
        machine(APPLE, system="Darwin", backends=("metal",)),
    ],
)
def test_a_build_that_suits_the_machine_needs_no_advice(suited: Machine) -> None:
    assert advise(suited) is None


def found(given: Machine) -> Advice:
    advice = advise(given)
    assert advice is not None
    return advice


def test_nvidia_and_a_cpu_build_get_the_cuda_command() -> None:
    advice = found(machine(INTEL, NVIDIA, tools=("nvcc",)))
    assert "NVIDIA GeForce RTX 4090 is here" in advice.problem
    assert advice.command == (
        f'CMAKE_ARGS="-DGGML_CUDA=on" python -m pip install --force-reinstall --no-cache-dir {PIN}'
    )
    assert advice.needs == ""


def test_without_nvcc_the_toolkit_comes_first() -> None:
    assert "CUDA toolkit" in found(machine(NVIDIA)).needs


def test_windows_gets_the_words_of_its_shell() -> None:
    advice = found(machine(NVIDIA, system="Windows", python=r"C:\Program Files\py.exe"))
    assert advice.command.startswith(
        '$env:CMAKE_ARGS="-DGGML_CUDA=on"; & "C:\\Program Files\\py.exe" -m pip install'
    )


def test_an_environment_without_pip_gets_uv() -> None:
    advice = found(machine(NVIDIA, has_pip=False, python="/venv/bin/python"))
    assert "uv pip install --python /venv/bin/python" in advice.command
    assert advice.command.endswith(PIN)


def test_apple_silicon_gets_metal() -> None:
    assert "-DGGML_METAL=on" in found(machine(APPLE, system="Darwin")).command


def test_amd_gets_rocm_where_it_is_installed_and_vulkan_elsewhere() -> None:
    assert "-DGGML_HIP=on" in found(machine(AMD, tools=("hipcc",))).command
    vulkan = found(machine(AMD))
    assert "-DGGML_VULKAN=on" in vulkan.command
    assert "Vulkan SDK" in vulkan.needs
    assert found(machine(AMD, tools=("glslc",))).needs == ""


def test_a_card_without_driver_needs_its_driver_first() -> None:
    advice = found(machine(Gpu("nvidia", "an NVIDIA card", driver=False)))
    assert "driver does not answer" in advice.problem
    assert advice.command == ""


def test_translated_python_is_told() -> None:
    advice = found(machine(system="Darwin", translated=True))
    assert "arm64 Python" in advice.needs


def test_a_missing_library_gets_the_plain_install_command() -> None:
    advice = found(machine(installed=False))
    assert advice.command.endswith(f"--no-cache-dir {PIN}")
    assert "CMAKE_ARGS" not in advice.command


def test_cards_are_listed_by_their_driver() -> None:
    def nvidia_smi(command: list[str]) -> str | None:
        return "NVIDIA H100\nNVIDIA H100\n" if command[0].endswith("nvidia-smi") else None

    cards = list(detect_gpus("Windows", "amd64", run=nvidia_smi))
    assert cards == [Gpu("nvidia", "NVIDIA H100")] * 2
    assert detect_gpus("Darwin", "arm64", run=nvidia_smi) == (APPLE,)
    assert detect_gpus("Windows", "amd64", run=lambda command: None) == ()


def test_detection_works_on_this_machine() -> None:
    here = detect_machine()
    assert here.installed
    assert here.system in ("Linux", "Darwin", "Windows")


def test_the_tested_version_is_the_one_that_pyproject_pins() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r"llama-cpp-python>=([\d.]+),<([\d.]+)", text)
    assert match is not None
    assert match.group(1) == TESTED_LLAMA_CPP_PYTHON
