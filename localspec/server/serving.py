"""Running the server: listening, telling where, and stopping without cutting anybody off."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette

from localspec.errors import UsageError
from localspec.server.app import make_app
from localspec.server.guard import is_loopback
from localspec.server.models import Start
from localspec.server.settings import ServerSettings

_log = logging.getLogger("localspec.server")

_BACKLOG = 256


def check_settings(settings: ServerSettings) -> None:
    """Raises UsageError for what would not be safe, or cannot be."""
    if not is_loopback(settings.host) and not settings.api_keys:
        raise UsageError(
            f"--host {settings.host} can be reached from other machines, and there is no API key",
            hint="set LOCALSPEC_API_KEY or --api-key-file, or listen on 127.0.0.1",
        )
    for key in settings.api_keys:
        if len(key) < 8 or not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(
                "an API key must have at least 8 printable ASCII characters and no blanks"
            )
    if not 0 <= settings.port <= 65535:
        raise UsageError(f"--port {settings.port} is out of range", hint="from 0 to 65535")
    names = [name for model in settings.models for name in (model.id, *model.aliases)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two models are called {twice!r}", hint="name each of them once")


def serve(settings: ServerSettings, start: Start, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal asks to stop; then running answers get `drain_s` to finish.

    on_ready: told the address once requests are taken. Raises UsageError, and what loading the
    first model raises.
    """
    check_settings(settings)
    # Streams end with their answers, not with the signal.
    AppStatus.enable_automatic_graceful_drain = False
    listener = listen(settings)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    limits = settings.limits
    app = make_app(settings, start)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=30,
        # One more second for the answers that were cancelled to leave their slots.
        timeout_graceful_shutdown=int(limits.drain_s) + 1,
        limit_concurrency=limits.connections,
    )
    server = _Server(config, app, lambda: on_ready(f"http://{shown}:{port}"))
    asyncio.run(server.serve(sockets=[listener]))
    if app.state.failure is not None:
        raise app.state.failure


class _Server(uvicorn.Server):
    """Tells when the first model is loaded and requests are taken."""

    def __init__(
        self, config: uvicorn.Config, app: Starlette, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._app.state.failure is not None:
            self.should_exit = True
        elif self.started:
            self._on_ready()


def listen(settings: ServerSettings) -> socket.socket:
    """The socket that takes connections. Raises UsageError where it cannot."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is named; otherwise the second
    # piece of a short answer waits 40 ms for the client's delayed acknowledgement of the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host.strip("[]"), settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="another program may use the port: choose one with --port",
        ) from error
    return listener
