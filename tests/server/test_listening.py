"""What connections to the server are like."""

from __future__ import annotations

import asyncio
import socket

import pytest

from localspec.errors import UsageError
from localspec.server.serving import listen
from localspec.server.settings import ServerSettings


async def test_pieces_of_an_answer_are_sent_at_once() -> None:
    """Without TCP_NODELAY a second piece waits for the client to acknowledge the first: 40 ms."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own: socket.socket = writer.get_extra_info("socket")
        found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen(ServerSettings(models=(), port=0))
    async with await asyncio.start_server(accepted, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await found
        writer.close()


def test_a_port_that_is_taken_is_told() -> None:
    with listen(ServerSettings(models=(), port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen(ServerSettings(models=(), port=port))
