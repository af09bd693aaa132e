"""Models are loaded when asked for, and the least recently used makes room."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from localspec.engine.client import EngineClient
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.errors import DoesNotFit, EngineError
from localspec.server.failures import ApiError, as_api_error
from localspec.server.models import Models
from localspec.server.settings import ServedModel


class FakeEngine:
    pid = None

    def __init__(self) -> None:
        self.closed = False

    async def close(self) -> None:
        self.closed = True


def models(*sizes: int, budget: int | None = None, **options: Any) -> tuple[Models, list[str]]:
    loads: list[str] = []

    async def start(model: ServedModel) -> EngineClient:
        loads.append(model.id)
        await asyncio.sleep(0)
        return cast(EngineClient, FakeEngine())

    served = [
        ServedModel(name, EngineSettings(ModelSettings(Path(name))), required=size)
        for name, size in zip("abc", sizes, strict=False)
    ]
    return Models(served, start, slots=1, most_waiting=9, budget=budget, **options), loads


async def touch(held: Models, name: str) -> FakeEngine:
    async with held.use(held.find(name)) as engine:
        return cast(FakeEngine, engine)


async def test_a_model_is_loaded_once_for_everybody_who_waits_for_it() -> None:
    held, loads = models(1)
    engines = await asyncio.gather(*(touch(held, "a") for _ in range(5)))
    assert loads == ["a"]
    assert len(set(map(id, engines))) == 1


async def test_the_least_recently_used_model_makes_room() -> None:
    held, loads = models(4, 4, 4, budget=8)
    first = await touch(held, "a")
    second = await touch(held, "b")
    await touch(held, "a")
    await touch(held, "c")
    assert second.closed
    assert not first.closed
    assert loads == ["a", "b", "c"]


async def test_a_model_in_use_is_waited_for_and_not_taken_away() -> None:
    held, _ = models(5, 5, budget=8)
    async with held.use(held.find("a")) as engine:
        other = asyncio.create_task(touch(held, "b"))
        await asyncio.sleep(0.01)
        assert not cast(FakeEngine, engine).closed
        assert not other.done()
    await asyncio.wait_for(other, 5)
    assert cast(FakeEngine, engine).closed


async def test_two_models_that_wait_for_each_others_room_both_get_it() -> None:
    held, _ = models(5, 5, 5, budget=5)
    await asyncio.wait_for(asyncio.gather(*(touch(held, n) for n in "abcabc")), 5)


async def test_what_does_not_fit_alone_is_a_clear_503() -> None:
    held, loads = models(9, budget=8)
    with pytest.raises(DoesNotFit) as refused:
        await touch(held, "a")
    assert as_api_error(refused.value).status == 503
    assert loads == []


async def test_a_client_that_leaves_does_not_stop_the_loading_for_others() -> None:
    held, loads = models(1)
    leaving = asyncio.create_task(touch(held, "a"))
    staying = asyncio.create_task(touch(held, "a"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait_for(staying, 5)
    assert loads == ["a"]


async def test_a_failed_load_is_tried_again_by_the_next_request() -> None:
    attempts = 0

    async def start(model: ServedModel) -> EngineClient:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise EngineError("no memory")
        return cast(EngineClient, FakeEngine())

    served = [ServedModel("a", EngineSettings(ModelSettings(Path("a"))))]
    held = Models(served, start, slots=1, most_waiting=1)
    with pytest.raises(EngineError):
        await touch(held, "a")
    await touch(held, "a")
    assert attempts == 2


async def test_an_idle_model_is_unloaded_and_one_in_use_is_not() -> None:
    held, _ = models(1, 1, idle_unload_s=0.02)
    watch = asyncio.create_task(held.unload_idle())
    idle = await touch(held, "a")
    async with held.use(held.find("b")) as used:
        for _ in range(200):
            if idle.closed:
                break
            await asyncio.sleep(0.01)
        assert idle.closed
        assert not cast(FakeEngine, used).closed
    watch.cancel()


def test_an_unknown_model_is_a_404_that_names_what_there_is() -> None:
    held, _ = models(1, 1)
    with pytest.raises(ApiError, match="there is a, b") as refused:
        held.find("gpt-4")
    assert refused.value.status == 404
    assert held.find(None).model.id == "a"
