"""What imports what: the core stays without faces, and commands without each other."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

FACES = {"textual", "typer", "rich", "prompt_toolkit"}
NATIVE = {"llama_cpp"}
HEADLESS = ("catalog", "ggufmeta", "decoding", "hub", "memory")
HEADLESS_ENGINE = (
    "localspec.engine.client",
    "localspec.engine.settings",
    "localspec.engine.chat_template",
    "localspec.engine.text_stream",
    "localspec.engine.thinking",
    "localspec.llama.advice",
    "localspec.events",
    "localspec.paths",
    "localspec.units",
    "localspec.errors",
)


def modules_after(code: str) -> set[str]:
    """Names of all modules that a new Python has loaded after running `code`."""
    report = "\nimport sys, json\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + report], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules_of(package: str) -> list[str]:
    root = import_module(package)
    return [package, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{package}."))]


@pytest.mark.parametrize("package", HEADLESS)
def test_the_core_loads_no_face_and_no_llama_cpp(package: str) -> None:
    names = modules_of(f"localspec.{package}")
    loaded = modules_after("\n".join(f"import {name}" for name in names))
    assert f"localspec.{package}" in loaded
    assert not (FACES | NATIVE) & loaded


def test_the_parents_side_of_the_engine_loads_no_face_and_no_llama_cpp() -> None:
    loaded = modules_after("\n".join(f"import {name}" for name in HEADLESS_ENGINE))
    assert not (FACES | NATIVE) & loaded


def test_program_help_loads_no_command_and_nothing_heavy() -> None:
    loaded = modules_after("from localspec.cli.app import run_program; run_program(['--help'])")
    heavy = {"pydantic", "numpy", "huggingface_hub", "asyncio", "jinja2", "psutil"}
    assert not (FACES | NATIVE | heavy) & loaded
    commands = {name for name in loaded if name.startswith("localspec.cli.")}
    assert commands == {f"localspec.cli.{name}" for name in ("app", "call", "output", "ui")}


@pytest.mark.parametrize("command", ["run", "doctor", "cache build", "list", "pull", "rm"])
def test_help_of_a_command_loads_no_other_command_and_nothing_heavy(command: str) -> None:
    arguments = [*command.split(), "--help"]
    loaded = modules_after(f"from localspec.cli.app import run_program; run_program({arguments})")
    heavy = {"pydantic", "numpy", "huggingface_hub", "jinja2", "psutil", "rich"}
    assert not ({"textual"} | NATIVE | heavy) & loaded
    others = {"run", "doctor", "cache", "list", "pull", "rm", "fit", "bench"} - {arguments[0]}
    assert not {f"localspec.cli.{name}" for name in others} & loaded
