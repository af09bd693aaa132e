"""Where tensors go: the parameters that llama.cpp gets, and what it does with them."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
from llama_cpp import llama_cpp as lib

from localspec.decoding.sampling import GREEDY
from localspec.engine.session import Session
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.ggufmeta.header import read_header
from localspec.llama import offload
from localspec.llama.cancel import CancelFlag
from localspec.llama.log import NativeLog
from localspec.llama.model import LoadOptions, Model
from localspec.llama.offload import BufferOverride, expert_patterns, set_offload
from localspec.llama.probe import run_probe
from localspec.memory.placement import place
from localspec.memory.probe import request_for
from localspec.memory.request import LoadOptions as PlanOptions
from localspec.memory.request import make_loads
from localspec.memory.weights import is_expert, weights
from tests.support.tiny_gguf import write_tiny

pytestmark = pytest.mark.engine


def overrides(params: lib.llama_model_params) -> list[BufferOverride]:
    """The list in `params` up to the entry without a pattern."""
    entries = ctypes.cast(params.tensor_buft_overrides, ctypes.POINTER(BufferOverride))
    found: list[BufferOverride] = []
    while entries[len(found)].pattern is not None:
        found.append(entries[len(found)])
    return found


def test_parameters_without_wishes_are_those_of_llama_cpp() -> None:
    params = lib.llama_model_default_params()
    assert set_offload(params) == ()
    assert params.n_gpu_layers == -1
    assert not params.tensor_split
    assert not params.tensor_buft_overrides


def test_shares_fill_one_place_for_each_device_there_could_be() -> None:
    params = lib.llama_model_default_params()
    kept = set_offload(params, gpu_layers=7, tensor_split=(3.0, 1.0))
    assert params.n_gpu_layers == 7
    assert len(kept[0]) >= lib.llama_max_devices()
    assert list(params.tensor_split[: len(kept[0])]) == [3.0, 1.0] + [0.0] * (len(kept[0]) - 2)


def test_experts_of_the_first_layers_are_sent_to_host_memory() -> None:
    params = lib.llama_model_default_params()
    kept = set_offload(params, experts_on_cpu=3)
    found = overrides(params)
    assert len(found) == 3
    assert {entry.buft for entry in found} == {offload._host_buffer_type()}
    assert all(entry.buft for entry in found)
    del kept


@pytest.mark.parametrize("layers", [1, 2, 12, 2**31 - 1])
def test_patterns_match_the_experts_that_the_plan_counts_and_nothing_else(
    layers: int, tmp_path: Path
) -> None:
    header = read_header(write_tiny(tmp_path / "m.gguf", "moe", n_layer=13))
    (load,) = make_loads(header, None, PlanOptions(experts_on_cpu=layers))
    matched = {
        tensor.name
        for tensor in header.tensors
        if any(re.search(pattern, tensor.name) for pattern in expert_patterns(layers))
    }
    assert matched
    assert matched == {
        tensor.name
        for tensor in header.tensors
        if is_expert(tensor) and int(tensor.name.split(".")[1]) < layers
    }
    on_host = weights(load, place(load, [1.0])).experts[-1]
    assert on_host == sum(t.nbytes for t in header.tensors if t.name in matched)


def test_llama_cpp_says_that_it_kept_the_experts(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "moe")
    log = NativeLog(keep=20_000)
    Model(path, LoadOptions(experts_on_cpu=1), log).close()
    moved = [line for line in log.lines() if "buffer type overridden to CPU" in line]
    assert len(moved) == 3
    assert all("blk.0.ffn_" in line and "_exps" in line for line in moved)


def test_a_probe_sends_experts_to_host_memory_too(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "moe")
    (load,) = make_loads(read_header(path), None, PlanOptions(experts_on_cpu=99))
    found = run_probe(request_for(load, path))
    assert found.ok
    assert sum("buffer type overridden to CPU" in line for line in found.lines) == 6


def test_the_engine_answers_the_same_with_experts_in_host_memory(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "moe")
    tokens = []
    for target in (
        ModelSettings(path),
        ModelSettings(path, experts_on_cpu=99, tensor_split=(1.0,)),
    ):
        session = Session(
            EngineSettings(target, n_ctx=256, method="none"),
            NativeLog(),
            CancelFlag(),
            lambda event: None,
        )
        try:
            request = GenerateRequest(prompt="abc", sampling=GREEDY, max_tokens=12, method="none")
            tokens.append(session.generate(request, lambda event: None).tokens)
        finally:
            session.close()
    assert tokens[0] == tokens[1] != ()
