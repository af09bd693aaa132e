"""The engine's child process: it may die, and nothing else does."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from localspec.decoding.sampling import GREEDY
from localspec.engine.client import EngineClient
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.errors import BadModelFile, EngineCrashed, EngineError, UsageError
from localspec.events import Answer, LoadProgress, TextDelta
from tests.engine.conftest import Tiny
from tests.support.engine import answer, open_session
from tests.support.tiny_gguf import write_embedding_only, write_unknown_architecture

PROMPT = "the cat and the hat and the cat and the hat; the rat and the "


def _settings(path: Path, **options: Any) -> EngineSettings:
    return EngineSettings(
        target=ModelSettings(path), **{"method": "ngram", "n_threads": 1, "n_ctx": 512, **options}
    )


def _request(max_tokens: int | None = 16) -> GenerateRequest:
    return GenerateRequest(prompt=PROMPT, sampling=GREEDY, max_tokens=max_tokens, ignore_end=True)


async def _answer(client: EngineClient, request: GenerateRequest) -> Answer:
    last: Any = None
    async for event in client.generate(request):
        last = event
    assert isinstance(last, Answer)
    return last


async def _answer_and_kill(client: EngineClient, how: int) -> None:
    async for event in client.generate(_request(400)):
        if isinstance(event, TextDelta):
            assert client.pid is not None
            os.kill(client.pid, how)


async def _start(path: Path, **options: Any) -> EngineClient:
    return await EngineClient.start(_settings(path, **options), lambda event: None)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
async def test_a_crash_costs_one_answer_and_the_next_one_works(tiny: Tiny, how: int) -> None:
    client = await _start(tiny("llama"))
    try:
        before = await _answer(client, _request())
        with pytest.raises(EngineCrashed, match=signal.Signals(how).name) as caught:
            await _answer_and_kill(client, how)
        assert caught.value.hint
        assert (await _answer(client, _request())).tokens == before.tokens
    finally:
        await client.close()


async def test_a_crash_between_answers_is_repaired_by_the_next(tiny: Tiny) -> None:
    client = await _start(tiny("llama"))
    try:
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        await asyncio.sleep(0.2)
        assert len((await _answer(client, _request())).tokens) == 16
    finally:
        await client.close()


async def test_a_native_abort_names_its_assertion(tiny: Tiny) -> None:
    """The child's last words reach the error: here llama.cpp's own assertion on a wrong handle."""
    from localspec.engine.child import run_in_child

    with pytest.raises(EngineCrashed, match="GGML_ASSERT") as caught:
        await asyncio.to_thread(run_in_child, _abort_natively)
    assert caught.value.fields["exit_code"] == -signal.SIGABRT


def _abort_natively() -> None:
    from localspec.llama import library

    get = library.find_symbol("ggml_backend_dev_get")
    assert get is not None
    get(10_000)


async def test_cancelling_keeps_what_was_said_and_the_next_turn_builds_on_it(tiny: Tiny) -> None:
    client = await _start(tiny("llama"), n_ctx=2048)
    try:
        last: Any = None
        async for event in client.generate(_request(None)):
            if isinstance(event, TextDelta):
                await client.cancel()
            last = event
        assert isinstance(last, Answer)
        assert last.finish_reason == "cancelled"
        assert last.text
        going_on = GenerateRequest(
            prompt=PROMPT + last.text, sampling=GREEDY, max_tokens=4, ignore_end=True
        )
        assert (await _answer(client, going_on)).cached_tokens >= last.prompt_tokens
    finally:
        await client.close()


async def test_leaving_the_events_early_cancels_the_answer(tiny: Tiny) -> None:
    client = await _start(tiny("llama"), n_ctx=2048)
    try:
        events = client.generate(_request(None))
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert len((await _answer(client, _request())).tokens) == 16
    finally:
        await client.close()


async def test_requests_at_once_wait_for_each_other_and_mix_nothing(tiny: Tiny) -> None:
    client = await _start(tiny("llama"))
    try:
        alone = await _answer(client, _request(30))
        together = await asyncio.gather(*(_answer(client, _request(30)) for _ in range(4)))
        assert {answer.tokens for answer in together} == {alone.tokens}
    finally:
        await client.close()


async def test_errors_cross_the_process_with_type_message_and_hint(
    tiny: Tiny, tmp_path: Path
) -> None:
    for path in (
        tmp_path / "missing.gguf",
        write_embedding_only(tmp_path / "bert.gguf"),
        write_unknown_architecture(tmp_path / "quux.gguf"),
    ):
        with pytest.raises(BadModelFile) as caught:
            await _start(path)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)
    settings = EngineSettings(target=ModelSettings(tiny("llama"), kv_type="q9"))
    with pytest.raises(UsageError, match="kv-type"):
        await EngineClient.start(settings, lambda event: None)


async def test_loading_tells_its_progress(tiny: Tiny) -> None:
    events: list[Any] = []
    client = await EngineClient.start(_settings(tiny("llama")), events.append)
    await client.close()
    fractions = [event.fraction for event in events if isinstance(event, LoadProgress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


async def test_a_closed_client_says_so(tiny: Tiny) -> None:
    client = await _start(tiny("llama"))
    await client.close()
    await client.close()
    with pytest.raises(EngineError, match="closed"):
        await _answer(client, _request())


async def test_fifty_rounds_of_load_answer_unload_leave_nothing_behind(tiny: Tiny) -> None:
    """Draft memory grows with every cycle elsewhere (llama.cpp #27155)."""
    me = psutil.Process()
    path = tiny("llama")

    async def once() -> None:
        client = await _start(path)
        await _answer(client, _request(4))
        await client.close()

    for _ in range(3):
        await once()
    memory, files, threads = me.memory_info().rss, me.num_fds(), _threads()
    # Python's own tracker of shared resources stays for the life of the program.
    children = me.children()
    for _ in range(47):
        await once()
    assert me.num_fds() <= files
    assert _threads() <= threads
    assert me.children() == children
    assert me.memory_info().rss - memory < 8 * 2**20


def _threads() -> int:
    """Threads, those of asyncio's own pool left out: it grows when it is busy, up to its bound."""
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


def test_native_memory_is_given_back_by_every_unload(tiny: Tiny) -> None:
    """The same in one process, where a leak of llama.cpp's would stay: target and draft."""
    me = psutil.Process()
    target, draft = tiny("llama"), tiny("llama", noise=0.05)

    def once() -> None:
        with open_session(target, draft, method="auto", p_min=0.0) as session:
            answer(session, PROMPT, "auto", max_tokens=16)

    for _ in range(5):
        once()
    memory = me.memory_info().rss
    for _ in range(45):
        once()
        gc.collect()
    assert me.memory_info().rss - memory < 8 * 2**20


async def test_the_child_ends_with_its_parent(tiny: Tiny, tmp_path: Path) -> None:
    """A parent that is killed leaves no engine behind."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os, pathlib, signal, sys\n"
        "from localspec.engine.client import EngineClient\n"
        "from localspec.engine.settings import EngineSettings, ModelSettings\n"
        "async def main():\n"
        "    target = ModelSettings(pathlib.Path(sys.argv[1]))\n"
        "    client = await EngineClient.start(EngineSettings(target, n_ctx=256), print)\n"
        "    print('pid', client.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        str(tiny("llama")),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    child = int(output.decode().split("pid ")[1].split()[0])
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie":
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"the engine {child} outlived its parent")


def test_a_log_that_was_replaced_or_forgotten_is_never_called_into(tiny: Tiny) -> None:
    """llama.cpp keeps a pointer to the callback: it must not dangle when its owner is gone."""
    from localspec.llama.log import NativeLog
    from tests.support.engine import native_log

    first = native_log()
    for _ in range(3):
        NativeLog()
        gc.collect()
        with open_session(tiny("llama")) as session:
            assert answer(session, PROMPT, max_tokens=4).tokens
    latest = NativeLog()
    with open_session(tiny("llama")) as session:
        assert answer(session, PROMPT, max_tokens=4).tokens
    assert any("n_ctx" in line for line in latest.lines())
    assert first is native_log()
