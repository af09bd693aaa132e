"""`localspec serve` as a process of its own, reached over loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass(slots=True)
class RunningServer:
    process: subprocess.Popen[str]
    address: str
    models: list[str]
    log: list[str]
    """What it wrote to stderr so far."""
    reader: threading.Thread
    """Fills `log`; it ends with the process."""

    @property
    def base_url(self) -> str:
        """What OpenAI clients want to know."""
        return f"{self.address}/v1"

    def http(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=120, **options)  # type: ignore[arg-type]

    def stop(self) -> int:
        """Ask it to stop and wait; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(
    home: Path, *arguments: str | Path, env: dict[str, str] | None = None
) -> Iterator[RunningServer]:
    """A server with `arguments` after `localspec serve`; ended at the end, whatever happens."""
    command = [sys.executable, "-m", "localspec", "serve", "--json", "--port", "0"]
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LOCALSPEC_HOME": str(home), **(env or {})},
    )
    log: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        address, models = _ready(process, log)
        yield RunningServer(process, address, models, log, reader)
    finally:
        process.kill()
        process.wait()


def _ready(process: subprocess.Popen[str], log: list[str]) -> tuple[str, list[str]]:
    """Reads stdout until the document that says where it listens is complete."""
    text = ""
    assert process.stdout is not None
    for line in process.stdout:
        text += line
        if line.startswith("}"):
            told = json.loads(text)
            return told["address"], told["models"]
    raise AssertionError(f"the server ended with {process.wait()}: {text}{''.join(log)}")
