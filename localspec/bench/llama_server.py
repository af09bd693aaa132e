"""A llama-server process on loopback: started, asked, and surely ended."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localspec.bench.server_methods import ServerMethod, ServerOptions
from localspec.engine.settings import EngineSettings
from localspec.errors import EngineCrashed, EngineError, Interrupted, UsageError

_START_LIMIT_S = 600.0
_POLL_S = 0.05
_LOCAL = "127.0.0.1"


def read_options(binary: Path) -> ServerOptions:
    """What this binary offers. Raises UsageError when it is no llama-server that starts."""
    try:
        done = subprocess.run(
            [str(binary), "--help"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"cannot start {binary}: {error}",
            hint="--against takes the path of a llama-server binary",
            path=str(binary),
        ) from error
    options = ServerOptions.parse(done.stdout)
    if done.returncode != 0 or "--ctx-size" not in options.names:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(
            f"{binary} does not answer like llama-server: {said[-1] if said else 'no output'}",
            hint="--against takes the path of a llama-server binary",
            path=str(binary),
        )
    return options


def server_arguments(
    settings: EngineSettings,
    method: ServerMethod,
    options: ServerOptions,
    *,
    n_ctx: int,
    n_threads: int,
) -> list[str]:
    """Arguments that give llama-server the same files, context, threads and cache types as the
    engine has. What a build does not offer is left out.

    n_ctx, n_threads: what the engine really uses, not 0.
    """
    target, draft = settings.target, settings.draft
    wanted: list[tuple[str, str | None]] = [
        ("--model", str(target.path)),
        ("--ctx-size", str(n_ctx)),
        ("--threads", str(n_threads)),
        ("--threads-batch", str(n_threads)),
        ("--batch-size", str(settings.n_batch)),
        ("--ubatch-size", str(settings.n_ubatch)),
        ("--flash-attn", settings.flash_attn),
        ("--cache-type-k", target.kv_type),
        ("--cache-type-v", target.kv_type),
        ("--gpu-layers", "999" if target.gpu_layers is None else str(target.gpu_layers)),
        ("--parallel", "1"),
        ("--cache-ram", "0"),
        ("--fit", "off"),
        ("--offline", None),
        ("--no-ui", None),
        ("--no-slots", None),
    ]
    if method.type != "none":
        wanted.append(("--spec-type", method.type))
    if method.needs_draft:
        if draft is None:
            raise UsageError(f"{method.name} needs a draft model, and there is none")
        wanted += [
            ("--spec-draft-model", str(draft.path)),
            ("--spec-draft-type-k", draft.kv_type),
            ("--spec-draft-type-v", draft.kv_type),
            ("--spec-draft-ngl", "999" if draft.gpu_layers is None else str(draft.gpu_layers)),
            ("--spec-draft-threads", str(n_threads)),
        ]
    wanted += list(method.options)
    arguments: list[str] = []
    for name, value in wanted:
        if name in options.names:
            arguments += [name] if value is None else [name, value]
    return arguments


class LlamaServer:
    """One running process. Close it; closing twice is harmless."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        """`start` is the way to make one."""
        self._process = process
        self._port = port
        self._log = log

    @classmethod
    async def start(
        cls, binary: Path, arguments: Sequence[str], stopped: Callable[[], bool]
    ) -> LlamaServer:
        """Start and wait until the model is loaded.

        Raises EngineCrashed when it ends instead, Interrupted when `stopped()` becomes true.
        """
        port = _free_port()
        handle, log = tempfile.mkstemp(prefix="llama-server-", suffix=".log")
        with os.fdopen(handle, "wb") as file:
            process = subprocess.Popen(
                [str(binary), *arguments, "--host", _LOCAL, "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_environment(),
                # Ctrl-C is for us: we end the server ourselves.
                start_new_session=True,
            )
        server = cls(process, port, Path(log))
        try:
            await server._wait_until_ready(stopped)
        except BaseException:
            server.close()
            raise
        return server

    async def post(
        self, path: str, body: dict[str, Any], stopped: Callable[[], bool]
    ) -> dict[str, Any]:
        """The JSON answer to a POST. Raises EngineError for a refusal, EngineCrashed when the
        server died, Interrupted when `stopped()` becomes true meanwhile."""
        call = asyncio.create_task(asyncio.to_thread(self._request, "POST", path, body))
        try:
            while not (await asyncio.wait({call}, timeout=0.2))[0]:
                if stopped():
                    raise Interrupted("stopped while llama-server was answering")
            status, answer = call.result()
        except (OSError, http.client.HTTPException) as error:
            raise self._crash() from error
        finally:
            if not call.done():
                # The thread sits in a read that only the end of the server ends.
                self._kill()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    await call
        if status != 200 or not isinstance(answer, dict):
            raise EngineError(f"llama-server refused {path}: {_message(answer)}", status=status)
        return answer

    def close(self) -> None:
        """End the process and remove its log."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._kill()
        self._log.unlink(missing_ok=True)

    async def _wait_until_ready(self, stopped: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self._crash()
            if stopped():
                raise Interrupted("stopped while llama-server was loading")
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _ = await asyncio.to_thread(self._request, "GET", "/health", None)
                if status == 200:
                    return
            await asyncio.sleep(_POLL_S)
        raise EngineError(f"llama-server was not ready after {_START_LIMIT_S:.0f} seconds")

    def _request(self, verb: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(_LOCAL, self._port, timeout=3600)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(verb, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _crash(self) -> EngineCrashed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        except OSError:
            lines = []
        said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return EngineCrashed(
            f"llama-server ended with exit status {self._process.poll()}: {said.strip()}",
            hint="run it by hand with the same file to see why",
            log=lines,
        )


def _message(answer: Any) -> str:
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return str(answer["error"].get("message", answer["error"]))
    return str(answer)[:200]


def _environment() -> dict[str, str]:
    """Ours, without the variables by which llama-server takes options of its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LLAMA_ARG_") and name != "LLAMA_API_KEY"
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOCAL, 0))
        return int(probe.getsockname()[1])
