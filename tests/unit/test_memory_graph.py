"""The allocator's replay on graphs small enough to follow by hand, and graphs of unknown models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.ggufmeta.architecture import read_architecture
from localspec.ggufmeta.header import Header, read_header
from localspec.memory.compute import compute_bytes
from localspec.memory.graph.allocator import Arena, buffer_sizes
from localspec.memory.graph.splits import add_copies
from localspec.memory.graph.tensors import Graph, Tensor, graph_input, reshape, weight
from localspec.memory.placement import place
from localspec.memory.request import ModelLoad
from tests.support.tiny_gguf import FAMILIES, write_tiny

KB = 1024


def node(op: str, *sources: Tensor, kb: int = 1) -> Tensor:
    return Tensor(op, (kb * 256,), sources)


def peak(*results: Tensor) -> int:
    graph = Graph()
    for result in results:
        graph.expand(result)
    return buffer_sizes(graph, 1)[0]


def test_chain_of_new_tensors_needs_two_at_a_time() -> None:
    x = graph_input(256)
    for _ in range(5):
        x = node("mul_mat", weight("w", 256, 256), x)
    assert peak(x) == 2 * KB


def test_operations_in_place_need_one() -> None:
    x = node("mul_mat", weight("w", 256, 256), graph_input(256))
    for _ in range(5):
        x = node("add", x, weight("b", 256))
    assert peak(x) == 2 * KB


def test_source_with_another_reader_is_not_overwritten() -> None:
    x = node("mul_mat", weight("w", 256, 256), graph_input(256))
    left = node("scale", x)
    assert peak(node("add", left, x)) == 2 * KB


def test_view_keeps_what_it_shows() -> None:
    x = node("mul_mat", weight("w", 256, 256), graph_input(256))
    later = node("mul_mat", reshape(x, 16, 16))
    assert peak(node("concat", later, reshape(x, 16, 16), kb=2)) == 4 * KB


def test_weights_and_caches_take_nothing() -> None:
    assert peak(reshape(weight("cache", 1024, 1024), 1024 * 1024)) == 0


def test_unused_input_stays_for_ever() -> None:
    graph = Graph()
    graph.expand(graph_input(256))
    graph.expand(node("mul_mat", weight("w", 256, 256), graph_input(256)))
    assert buffer_sizes(graph, 1)[0] == 3 * KB


def test_best_fit_takes_the_smallest_hole_that_holds() -> None:
    arena = Arena(32)
    addresses = [arena.take(size) for size in (320, 32, 128, 32, 64, 32)]
    for address, size in zip(addresses[::2], (320, 128, 64), strict=True):
        arena.give(address, size)
    assert arena.take(96) == addresses[2]
    assert arena.peak == 608


def test_freed_neighbours_join() -> None:
    arena = Arena(32)
    first, second = arena.take(64), arena.take(64)
    arena.take(32)
    arena.give(second, 64)
    arena.give(first, 64)
    assert arena.take(128) == first


def test_each_device_gets_its_own_copy_once() -> None:
    x = graph_input(256)
    there = node("mul_mat", weight("w", 256, 256), x)
    again = node("mul_mat", weight("w", 256, 256), x)
    both = node("concat", there, again, kb=2)
    for tensor in (there, again, both):
        tensor.device = 0
    graph = Graph()
    graph.expand(both)
    gpu, host = buffer_sizes(add_copies(graph, 1), 2)
    # One copy of the input, two products, their concatenation in place of nothing.
    assert gpu == 5 * KB
    assert host == 1 * KB


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Header]:
    folder = tmp_path_factory.mktemp("graphs")
    return {name: read_header(write_tiny(folder / name, name)) for name in FAMILIES}


def load_of(header: Header) -> ModelLoad:
    return ModelLoad("target", header, read_architecture(header), 512, n_outputs=4)


@pytest.mark.parametrize("family", FAMILIES)
def test_model_that_lacks_a_tensor_still_gets_a_figure(
    family: str, headers: dict[str, Header]
) -> None:
    header = headers[family]
    kinds = {tensor.name.split(".", 2)[-1] for tensor in header.tensors}
    for kind in sorted(kinds):
        kept = tuple(t for t in header.tensors if t.name.split(".", 2)[-1] != kind)
        load = load_of(replace(header, tensors=kept))
        assert sum(compute_bytes(load, place(load, ()))) > 0, kind


@pytest.mark.parametrize("family", FAMILIES)
def test_flat_tensors_do_not_stop_the_estimate(family: str, headers: dict[str, Header]) -> None:
    header = headers[family]
    flat = tuple(replace(t, shape=t.shape[:1]) for t in header.tensors)
    load = load_of(replace(header, tensors=flat))
    assert sum(compute_bytes(load, place(load, ()))) > 0


def test_gpu_and_host_share_the_work(headers: dict[str, Header], tmp_path: Path) -> None:
    load = load_of(headers["llama"])
    whole = compute_bytes(load, place(load, ()))
    gpu, host = compute_bytes(load, place(load, (1.0,)))
    assert 0 < host < gpu
    assert gpu + host >= whole[0]
