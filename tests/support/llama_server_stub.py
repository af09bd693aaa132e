"""A program that speaks llama-server's protocol without a model, to be run as a process.

It appends one line of JSON to the file named by LLAMA_STUB_LOG for its start and for each request.
A model named broken.gguf cannot be loaded; dies.gguf makes it die on a completion, hangs.gguf makes
it hang there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HELP = """\
----- common params -----

-c,    --ctx-size N                     size of the context
-m,    --model FNAME                    model file
-t,    --threads N                      threads
-fa,   --flash-attn [on|off|auto]       flash attention
--offline                               no network
--spec-draft-model, -md, --model-draft FNAME
                                        draft model
--spec-draft-p-min, --draft-p-min P     least probability
--spec-draft-n-max N                    tokens to draft
--spec-type none,draft-simple,ngram-simple,ngram-mod,ngram-cache
                                        kinds of speculation
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max
--spec-ngram-size-n N                   the argument has been removed. use the respective
                                        --spec-ngram-*-size-n
"""


def note(record: dict[str, Any]) -> None:
    with Path(os.environ["LLAMA_STUB_LOG"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def value(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, {"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note({"pid": os.getpid(), "path": self.path, "body": body})
        if self.path == "/tokenize":
            tokens = [ord(character) for character in body["content"]]
            self.answer(200, {"tokens": [1, *tokens] if body["add_special"] else tokens})
        elif not body["prompt"]:
            self.answer(400, {"error": {"message": "empty prompt"}})
        else:
            self.complete(body)

    def complete(self, body: dict[str, Any]) -> None:
        if value("--model") == "dies.gguf":
            print("GGML_ASSERT(stub) failed", flush=True)
            os._exit(3)
        if value("--model") == "hangs.gguf":
            time.sleep(60)
        count = body["n_predict"]
        self.answer(
            200,
            {
                "content": "stub",
                "tokens": list(range(count)),
                "tokens_evaluated": len(body["prompt"]),
                "stop_type": "limit",
                "timings": {
                    "predicted_n": count,
                    "predicted_ms": 100.0 * (count - 1),
                    "draft_n": 8,
                    "draft_n_accepted": 6,
                },
            },
        )

    def answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    if "--help" in sys.argv:
        print(HELP)
        return
    note({"pid": os.getpid(), "arguments": sys.argv[1:]})
    if value("--model") == "broken.gguf":
        print("error: cannot load the model")
        sys.exit(1)
    ThreadingHTTPServer((value("--host"), int(value("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
