"""A pull that is killed again and again ends right, and fetches hardly anything twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localspec.paths import Paths
from tests.support.fake_hub import FakeHub

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

KILLS = int(os.environ.get("LOCALSPEC_TEST_KILLS", "6"))
TARGET_BYTES, DRAFT_BYTES = 12_000_000, 6_000_000
REPO = "someone/Pair-GGUF"

CATALOG = """
schema = 1
[models.target]
repo = "someone/Pair-GGUF"
filename = "target-Q4_K_M.gguf"
[models.draft]
repo = "someone/Pair-GGUF"
filename = "draft-Q4_K_M.gguf"
[pairs."my+pair"]
method = "draft"
target = "target"
draft = "draft"
"""


def _start(paths: Paths) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "localspec", "pull", "my+pair", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


def test_killed_at_random_moments_the_files_are_right(hub: FakeHub, paths: Paths) -> None:
    moments = random.Random(KILLS)
    repo = hub.add(
        REPO,
        {
            "target-Q4_K_M.gguf": moments.randbytes(TARGET_BYTES),
            "draft-Q4_K_M.gguf": moments.randbytes(DRAFT_BYTES),
        },
    )
    paths.config.mkdir(parents=True)
    paths.user_catalog.write_text(CATALOG, encoding="utf-8")
    hub.rate = TARGET_BYTES / max(1.0, 0.3 * KILLS)
    folder = paths.models / "someone--Pair-GGUF"
    killed = 0
    for _ in range(KILLS):
        requests = len(hub.log)
        client = _start(paths)
        # Killed anywhere from the program's start to well into the bodies of both files.
        while len(hub.log) == requests and client.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.5))
        client.send_signal(signal.SIGKILL)
        killed += client.wait() == -signal.SIGKILL
        client.communicate()
        for name, file in repo.files.items():
            finished = folder / name
            assert not finished.exists() or finished.read_bytes() == file.content
    assert killed >= KILLS // 2
    hub.rate = None
    last = _start(paths)
    _, stderr = last.communicate()
    assert last.returncode == 0, stderr.decode()
    for name, file in repo.files.items():
        assert (folder / name).read_bytes() == file.content
        # What was on its way inside the kernel when the process died is lost.
        assert hub.bytes_sent(file.sha256) <= 2 * file.size
        assert hub.most_repeated(file.sha256) <= 3


def test_ctrl_c_ends_it_at_once_with_130_and_keeps_what_arrived(hub: FakeHub, paths: Paths) -> None:
    content = random.Random(0).randbytes(TARGET_BYTES)
    hub.add(REPO, {"target-Q4_K_M.gguf": content, "draft-Q4_K_M.gguf": content[:DRAFT_BYTES]})
    paths.config.mkdir(parents=True)
    paths.user_catalog.write_text(CATALOG, encoding="utf-8")
    hub.rate = 4_000_000
    client = _start(paths)
    while not hub.requests("storage"):
        time.sleep(0.01)
    time.sleep(0.3)
    client.send_signal(signal.SIGINT)
    _, stderr = client.communicate(timeout=20)
    assert client.returncode == 130
    assert stderr.decode().splitlines()[-1] == "interrupted"
    assert "Traceback" not in stderr.decode()
    partials = list((paths.models / ".partial").rglob("*.gguf"))
    assert sum(path.stat().st_size for path in partials) > 0
