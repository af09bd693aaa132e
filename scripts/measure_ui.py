"""Measure the terminal UI: how soon a key is answered, and what a long conversation costs.

    python scripts/measure_ui.py keys MODEL.gguf      in a pseudo-terminal, while it answers
    python scripts/measure_ui.py memory [TOKENS]      20,000 tokens through the screens

`keys` starts the real program on a real model and types characters that occur nowhere else; the
time until each comes back on the terminal is the latency that a user sees, drawing included.
`memory` needs no model: the text comes from a script, everything behind it is the program's own.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

KEYS = "αβγδεζηθικλμνξοπρστυφχψω"
SAMPLES = 96


def measure_keys(model: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        state = Path(home, "data", "ui.json")
        state.parent.mkdir()
        # Greedily this answer goes on until the context is full.
        state.write_text(json.dumps({"settings": {"temp": 0.0}}), encoding="utf-8")
        child, screen = _start(
            [sys.executable, "-m", "localspec", "--model", model, "--screen", "chat"], home
        )
        try:
            _read_until(screen, b"8,192", 60)
            os.write(screen, b"Write a very long story about a river and its people.\r")
            _read_until(screen, b"tok/s", 30)
            time.sleep(2)
            found = [_latency(screen, KEYS[i % len(KEYS)]) for i in range(SAMPLES)]
            still = _is_moving(screen)
        finally:
            os.write(screen, b"\x11")
            _drain(screen)
            child.wait(10)
    found.sort()
    print(
        f"key latency over {len(found)} keys while answering: "
        f"median {statistics.median(found) * 1000:.1f} ms, "
        f"95th percentile {found[int(len(found) * 0.95)] * 1000:.1f} ms, "
        f"highest {found[-1] * 1000:.1f} ms"
    )
    if not still:
        print("note: the answer had ended before the last key")


def measure_memory(tokens: int) -> None:
    asyncio.run(_measure_memory(tokens))


async def _measure_memory(tokens: int) -> None:
    import psutil

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from localspec.tui.app import LocalspecApp
    from localspec.tui.widgets.transcript import Transcript
    from tests.support.fake_backend import ANSWER, FakeBackend

    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        backend = FakeBackend(Path(folder), state={"welcomed": True})
        # About four characters are a token.
        backend.script.text = (ANSWER + "\n\n") * (tokens * 4 // 10 // len(ANSWER) + 1)
        backend.script.piece = 4
        app = LocalspecApp(backend, screen="chat", model="smollm2-135m")
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause(0.5)
            before = process.memory_info().rss
            written = 0
            begun = time.perf_counter()
            for number in range(10):
                app.screen.query_one("#prompt").put(f"part {number}")  # type: ignore[attr-defined]
                await pilot.press("enter")
                while len(app.session.turns) < 2 * number + 2:
                    await pilot.pause(0.02)
                written += len(app.session.turns[-1].content) // 4
            seconds = time.perf_counter() - begun
            after = process.memory_info().rss
            transcript = app.screen.query_one(Transcript)
            times = []
            for number in range(60):
                begun = time.perf_counter()
                transcript.scroll_to(
                    y=number * 37 % max(1, transcript.max_scroll_y), animate=False, immediate=True
                )
                app.screen._compositor.render_strips()
                times.append(time.perf_counter() - begun)
            lines = sum(len(strips) for strips in transcript.lines())
            times.sort()
    print(
        f"{written:,} tokens in {len(transcript.entries):,} blocks and {lines:,} lines, "
        f"shown at {written / seconds:,.0f} tokens per second"
    )
    print(
        f"memory {before / 2**20:.0f} MiB before, {after / 2**20:.0f} MiB after: "
        f"{(after - before) / 2**20:.0f} MiB"
    )
    print(
        f"a screenful after a jump: median {statistics.median(times) * 1000:.1f} ms, "
        f"95th percentile {times[int(len(times) * 0.95)] * 1000:.1f} ms"
    )


def _start(command: list[str], home: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {
        **os.environ,
        "LOCALSPEC_HOME": home,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    return child, ours


def _read_until(screen: int, wanted: bytes, timeout: float) -> bytes:
    seen = b""
    until = time.monotonic() + timeout
    while wanted not in seen:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{wanted!r} did not appear")
        if select.select([screen], [], [], left)[0]:
            seen = seen[-4096:] + os.read(screen, 65536)
    return seen


def _latency(screen: int, key: str) -> float:
    """Seconds until a typed character is on the terminal."""
    quiet = time.monotonic() + 0.12
    while (left := quiet - time.monotonic()) > 0:
        if select.select([screen], [], [], left)[0]:
            os.read(screen, 65536)
    begun = time.perf_counter()
    os.write(screen, key.encode())
    _read_until(screen, key.encode(), 5)
    return time.perf_counter() - begun


def _drain(screen: int) -> None:
    """Read until the program has ended: with nobody reading, it could not even say goodbye."""
    try:
        while select.select([screen], [], [], 10)[0] and os.read(screen, 65536):
            pass
    except OSError:
        # The other side is closed.
        return


def _is_moving(screen: int) -> bool:
    return bool(select.select([screen], [], [], 1.0)[0])


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "keys":
        measure_keys(sys.argv[2])
    elif len(sys.argv) > 1 and sys.argv[1] == "memory":
        measure_memory(int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
    else:
        sys.exit(__doc__)
