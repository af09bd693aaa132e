"""A Hub on loopback: a real HTTP server that speaks the Hub's API as huggingface_hub uses it.

Files are redirected to a second server, the storage, as the real Hub does; both can be told to
misbehave, and both keep a log of what they were asked and what they sent.
"""

from __future__ import annotations

import http.server
import json
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.fake_hub_parts import Fault, HubFile, HubRepo, Request

__all__ = ["FakeHub", "Fault", "HubFile", "HubRepo", "Request"]

_BLOCK = 64 * 1024


class FakeHub:
    """Start it with `with`; point `HF_ENDPOINT` to `endpoint`."""

    def __init__(self) -> None:
        self.repos: dict[str, HubRepo] = {}
        self.accepted: set[str] = set()
        """Tokens whose owners accepted every licence."""
        self.known: set[str] = set()
        """Tokens that are valid; with an unknown one every request is answered 401."""
        self.hub_faults: deque[Fault] = deque()
        """One for each request to the Hub itself, in order."""
        self.storage_faults: dict[str, deque[Fault]] = {}
        """For each file name, one for each GET of its bytes, in order."""
        self.xet = False
        """Whether every file has a Xet address too; there is no Xet server behind it."""
        self.hashes_as_etags = True
        """Whether an etag is the sha256 of its file, as on the real Hub; some mirrors differ."""
        self.rate: float | None = None
        """Bytes per second of each body; None as fast as it goes."""
        self.log: list[Request] = []
        self.sent: dict[str, list[list[int]]] = {}
        """For each sha256, begin and end of the byte ranges that were put on the wire so far."""
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self._servers: list[http.server.ThreadingHTTPServer] = []

    def __enter__(self) -> FakeHub:
        for handler in (_HubHandler, _StorageHandler):
            kind = type(handler.__name__, (handler,), {"hub": self})
            server = _Server(("127.0.0.1", 0), kind)
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    @property
    def storage(self) -> str:
        # Another name of the same machine: to a client that is another host.
        return f"http://localhost:{self._servers[1].server_address[1]}"

    def add(self, repo: str, files: Mapping[str, bytes | Path | HubFile]) -> HubRepo:
        """A repository with these files."""
        made = HubRepo({n: f if isinstance(f, HubFile) else HubFile(f) for n, f in files.items()})
        self.repos[repo] = made
        return made

    def fault(self, filename: str, *faults: Fault) -> None:
        """The next GETs of this file's bytes misbehave so."""
        self.storage_faults.setdefault(filename, deque()).extend(faults)

    def requests(self, server: str, method: str = "GET") -> list[Request]:
        with self.lock:
            return [r for r in self.log if r.server == server and r.method == method]

    def bytes_sent(self, sha256: str) -> int:
        """Bytes of a file that were put on the wire, repeated ones included."""
        with self.lock:
            return sum(end - begin for begin, end in self.sent.get(sha256, []))

    def most_repeated(self, sha256: str) -> int:
        """How often the most repeated byte of a file was put on the wire."""
        with self.lock:
            spans = list(self.sent.get(sha256, []))
        steps = sorted([(b, 1) for b, e in spans if e > b] + [(e, -1) for b, e in spans if e > b])
        most = now = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        return most


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are the point of these tests."""


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"
    server_name = ""

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def note(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        request = Request(
            self.server_name, self.command, self.path, self.headers.get("Range"), token
        )
        with self.hub.lock:
            self.hub.log.append(request)

    @property
    def token(self) -> str | None:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") or None

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _HubHandler(_Handler):
    server_name = "hub"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.note()
        with self.hub.lock:
            fault = self.hub.hub_faults.popleft() if self.hub.hub_faults else None
        if fault is not None and fault.status != 200:
            self.answer(fault.status, b"", fault.headers)
            return
        if self.token is not None and self.token not in self.hub.known | self.hub.accepted:
            self.answer(
                401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"}
            )
            return
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if path == "/api/models":
            self._search(parse_qs(parts.query))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._model(match[1], match[2])
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            # A slash inside a revision travels as %2F; here it is decoded already.
            raw = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", parts.path)
            assert raw is not None
            self._resolve(unquote(raw[1]), unquote(raw[2]), unquote(raw[3]))
        else:
            self.answer(404)

    def _repo(self, name: str) -> HubRepo | None:
        """The repository, if this caller may know of it; else the answer is given."""
        found = next((r for n, r in self.hub.repos.items() if n.lower() == name.lower()), None)
        if found is None or (found.private and self.token not in self.hub.accepted):
            # The real Hub tells strangers 401 for what does not exist.
            status = 404 if self.token else 401
            self.answer(status, b"", {"X-Error-Code": "RepoNotFound"})
            return None
        return found

    def _search(self, query: Mapping[str, list[str]]) -> None:
        text = query.get("search", [""])[0].lower()
        owner = query.get("author", [""])[0]
        found = [
            {"id": name, "modelId": name}
            for name, repo in self.hub.repos.items()
            if text in name.lower() and not repo.private and name.startswith(owner)
        ]
        body = json.dumps(found[: int(query.get("limit", ["100"])[0])]).encode()
        self.answer(200, body, {"Content-Type": "application/json"})

    def _model(self, name: str, revision: str | None) -> None:
        repo = self._repo(name)
        if repo is None:
            return
        if revision is not None and revision not in (*repo.revisions, repo.commit):
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        canonical = next(n for n in self.hub.repos if n.lower() == name.lower())
        document = {
            "id": canonical,
            "modelId": canonical,
            "sha": repo.commit,
            "gated": "manual" if repo.gated else False,
            "private": repo.private,
            "tags": ["gguf", "license:apache-2.0"],
            "siblings": [
                {
                    "rfilename": path,
                    "size": file.size,
                    "blobId": file.sha256[:40],
                    "lfs": {"size": file.size, "sha256": file.sha256, "pointerSize": 130},
                }
                for path, file in repo.files.items()
            ],
        }
        self.answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, revision: str, filename: str) -> None:
        repo = self._repo(name)
        if repo is None:
            return
        if revision not in (*repo.revisions, repo.commit):
            self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        file = repo.files.get(filename)
        if file is None:
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repo.commit}
            self.answer(404, b"", headers)
            return
        if repo.gated and self.token not in self.hub.accepted:
            status = 403 if self.token else 401
            self.answer(status, b"", {"X-Error-Code": "GatedRepo"})
            return
        xet = {"X-Xet-Hash": file.sha256, "X-Xet-Refresh-Route": f"{self.hub.endpoint}/xet"}
        self.answer(
            302,
            b"",
            (xet if self.hub.xet else {})
            | {
                "X-Repo-Commit": repo.commit,
                "X-Linked-Etag": f'"{self._etag(file)}"',
                "X-Linked-Size": str(file.size),
                "ETag": f'"{file.sha256[:32]}"',
                "Location": f"{self.hub.storage}/{name}/{repo.commit}/{filename}",
            },
        )

    def _etag(self, file: HubFile) -> str:
        return file.sha256 if self.hub.hashes_as_etags else file.sha256[:20]


class _StorageHandler(_Handler):
    server_name = "storage"

    def do_GET(self) -> None:
        self.note()
        match = re.fullmatch(r"/([^/]+/[^/]+)/[^/]+/(.+)", unquote(urlsplit(self.path).path))
        repo = next(
            (r for n, r in self.hub.repos.items() if match and n.lower() == match[1].lower()), None
        )
        if match is None or repo is None or match[2] not in repo.files:
            self.answer(404)
            return
        with self.hub.lock:
            queue = self.hub.storage_faults.get(match[2])
            fault = queue.popleft() if queue else Fault()
        if fault.status != 200:
            self.answer(fault.status, b"", fault.headers)
            return
        self._send(repo.files[match[2]], fault)

    def _send(self, file: HubFile, fault: Fault) -> None:
        begin = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not fault.no_range:
            begin = int(asked[1]) + int(fault.wrong_range)
            if begin >= file.size:
                self.answer(416, b"", {"Content-Range": f"bytes */{file.size}"})
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{file.size - 1}/{file.size}")
        else:
            self.send_response(200)
        if fault.cut_after is None:
            self.send_header("Content-Length", str(file.size - begin))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self._body(file, begin, fault)

    def _body(self, file: HubFile, begin: int, fault: Fault) -> None:
        self.wfile.flush()
        limits = (fault.drop_after, fault.stall_after, fault.cut_after)
        stop = min([file.size, *(begin + limit for limit in limits if limit is not None)])
        span = [begin, begin]
        with self.hub.lock:
            self.hub.sent.setdefault(file.sha256, []).append(span)
        try:
            if isinstance(file.content, Path) and self.hub.rate is None:
                with file.content.open("rb") as source:
                    self.connection.sendfile(source, begin, stop - begin)
                span[1] = stop
            else:
                self._blocks(file, span, stop, fault)
        except OSError:
            self.close_connection = True
        if fault.stall_after is not None:
            self.hub.closing.wait(60)
            self.close_connection = True
        if fault.drop_after is not None:
            # A reset instead of a polite end.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

    def _blocks(self, file: HubFile, span: list[int], stop: int, fault: Fault) -> None:
        position = span[0]
        while position < stop and not self.hub.closing.is_set():
            end = min(position + _BLOCK, stop)
            block = self._read(file, position, end)
            if fault.flip_byte is not None and position <= fault.flip_byte < end:
                place = fault.flip_byte - position
                block = block[:place] + bytes([block[place] ^ 0xFF]) + block[place + 1 :]
            self.connection.sendall(block)
            position = span[1] = end
            if self.hub.rate is not None:
                time.sleep(len(block) / self.hub.rate)

    def _read(self, file: HubFile, begin: int, end: int) -> bytes:
        if isinstance(file.content, bytes):
            return file.content[begin:end]
        with file.content.open("rb") as source:
            source.seek(begin)
            return source.read(end - begin)
