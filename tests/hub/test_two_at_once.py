"""Two processes that want the same file fetch it once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hub.conftest import TARGET_FILE, TARGET_REPO, World


def test_the_second_waits_for_the_first(world: World) -> None:
    world.hub.rate = 3_000_000
    command = [sys.executable, "-m", "localspec", "pull", f"{TARGET_REPO}/{TARGET_FILE}", "--json"]
    clients = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        for _ in range(2)
    ]
    outputs = [client.communicate()[0] for client in clients]
    assert [client.returncode for client in clients] == [0, 0]
    files = [json.loads(output.splitlines()[-1])["files"][0] for output in outputs]
    assert files[0]["path"] == files[1]["path"]
    assert Path(files[0]["path"]).read_bytes() == world.target
    assert sorted(file["downloaded_bytes"] for file in files) == [0, len(world.target)]
    assert world.hub.most_repeated(world.sha256("target")) == 1
