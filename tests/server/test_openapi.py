"""The published document is true, and nothing it allows makes the server fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.server.app import ROUTES
from localspec.server.openapi import document
from tests.support.serving import serving

pytestmark = pytest.mark.engine


def test_every_route_is_in_the_document_and_every_path_is_a_route() -> None:
    routes = {(method.lower(), path.replace(":path}", "}")) for method, path, _ in ROUTES}
    described = {(method, path) for path, item in document()["paths"].items() for method in item}
    unlisted = {("get", "/openapi.json"), ("get", "/v1/health")}
    assert routes - unlisted == described


def test_nothing_that_the_document_allows_makes_the_server_fail(
    tiny_model: Path, tmp_path: Path
) -> None:
    """No 5xx. A small context keeps the answers short that are asked for without a limit."""
    examples = os.environ.get("LOCALSPEC_SCHEMATHESIS_EXAMPLES", "10")
    with serving(tmp_path, tiny_model, "--ctx", "256", "--threads", "1") as running:
        done = subprocess.run(
            [
                sys.executable, "-m", "schemathesis.cli", "run", f"{running.address}/openapi.json",
                "--checks", "not_a_server_error", "--max-examples", examples,
                "--phases", "examples,fuzzing", "--request-timeout", "120", "--no-color",
                "--continue-on-failure", "--seed", "1",
            ],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
