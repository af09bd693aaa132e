"""The queue is fair, bounded, and loses no slot."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.server.admission import FairQueue
from localspec.server.failures import ApiError


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_clients_take_turns_however_much_one_of_them_asks() -> None:
    queue = FairQueue(1, 100)
    order: list[str] = []

    async def ask(client: str) -> None:
        async with queue.slot(client):
            order.append(client)
            await asyncio.sleep(0)

    async with queue.slot("first"):
        tasks = [asyncio.create_task(ask(client)) for client in "aaaabbc"]
        await settle()
    await asyncio.gather(*tasks)
    assert order == list("abcabaa")


async def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    queue = FairQueue(1, 2)
    async with queue.slot("a"):
        waiting = [asyncio.create_task(queue.slot("b").__aenter__()) for _ in range(2)]
        await settle()
        with pytest.raises(ApiError) as refused:
            await queue.slot("c").__aenter__()
        assert refused.value.status == 429
        assert int(refused.value.as_response().headers["Retry-After"]) >= 1
        for task in waiting:
            task.cancel()
        await settle()
    assert queue.n_waiting == 0
    assert queue.n_running == 0


@given(
    slots=st.integers(1, 3),
    actions=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=25
    ),
)
@settings(max_examples=100, deadline=None)
def test_no_slot_is_lost_and_none_is_given_twice(
    slots: int, actions: list[tuple[str, int, bool]]
) -> None:
    async def run() -> None:
        queue = FairQueue(slots, 1000)
        inside = 0

        async def ask(client: str, turns: int) -> None:
            nonlocal inside
            async with queue.slot(client):
                inside += 1
                assert inside <= slots
                try:
                    for _ in range(turns):
                        await asyncio.sleep(0)
                finally:
                    inside -= 1

        tasks = []
        for client, turns, gives_up in actions:
            task = asyncio.create_task(ask(client, turns))
            tasks.append(task)
            if gives_up:
                await asyncio.sleep(0)
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(r is None or isinstance(r, asyncio.CancelledError) for r in results)
        assert queue.n_running == 0
        assert queue.n_waiting == 0

    asyncio.run(run())
