"""The program in a real terminal: from the first start to a sane shell, on a real model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models import smollm2

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
TRIES = 600
"""Looks at the screen, a tenth of a second apart, before a test gives up."""


class Terminal:
    """One tmux session with a shell in it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._socket = str(folder / "tmux.sock")
        environment = {
            **os.environ,
            "LOCALSPEC_HOME": str(home),
            "TERM": "xterm-256color",
            "PS1": "ready> ",
            "COLUMNS": "",
            "LINES": "",
        }
        command = ["new-session", "-d", "-x", "110", "-y", "32", "sh", "-i"]
        subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *command], check=True, env=environment
        )

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names; a text is typed as it is."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, *texts: str) -> str:
        """The screen once it shows every text; fails when it never does."""
        for _ in range(TRIES):
            shown = self.screen()
            if all(text in shown for text in texts):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{texts} did not appear:\n{self.screen()}")

    def wait_for_match(self, pattern: str) -> None:
        """Wait until the screen shows a text of this form, looking as often as tmux answers."""
        until = time.monotonic() + TRIES / 10
        while time.monotonic() < until:
            if re.search(pattern, self.screen()):
                return
        raise AssertionError(f"{pattern!r} did not appear:\n{self.screen()}")

    def wait_without(self, text: str) -> str:
        for _ in range(TRIES):
            shown = self.screen()
            if text not in shown:
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{text!r} did not go away:\n{self.screen()}")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(tmp_path, tmp_path / "home")
    yield found
    found.close()


def test_a_new_user_pulls_chats_switches_stops_quits_and_finds_the_shell_sane(
    terminal: Terminal, tmp_path: Path
) -> None:
    # The most probable tokens: the answer about the river then goes on until the context is full,
    # so that it still runs when Escape comes, however fast the machine is.
    data = tmp_path / "home" / "data"
    data.mkdir(parents=True)
    (data / "ui.json").write_text(json.dumps({"settings": {"temp": 0.0}}), encoding="utf-8")
    terminal.wait_for("ready>")
    terminal.type(f"{sys.executable} -m localspec")
    terminal.keys("Enter")
    terminal.wait_for("Welcome", "smollm2-135m", "98.4 MB")
    # The smallest pair is the first row: one key pulls, loads and opens the chat.
    terminal.keys("Enter")
    terminal.wait_for("Ask something", "smollm2-135m", "ctx 0 / 8,192")
    terminal.type("Count from one to ten.")
    terminal.keys("Enter")
    terminal.wait_for("tok/s · auto")
    terminal.keys("C-s")
    terminal.wait_for("drafter none")
    terminal.type("Write a long story about a river.")
    terminal.keys("Enter")
    terminal.wait_for_match(r"now +[1-9]")
    terminal.keys("Escape")
    terminal.wait_for("none · stopped")
    terminal.wait_for("compared")
    terminal.keys("C-q")
    terminal.wait_for("ready>")
    terminal.wait_without("Speculation")
    # Echo and line editing are as before, and nothing of llama.cpp was printed.
    terminal.type("stty -a | grep -c -- '[^-]echo '; echo $((6 * 7))")
    terminal.keys("Enter")
    shown = terminal.wait_for("42")
    assert "llama_" not in shown
    assert "Traceback" not in shown
    assert list((tmp_path / "home" / "data" / "models").rglob("*.gguf"))
    assert list((tmp_path / "home" / "data" / "chats").glob("*.json"))
    assert not _engines(tmp_path)


def test_quitting_while_a_model_loads_restores_the_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    model = smollm2()
    terminal.wait_for("ready>")
    terminal.type(f"{sys.executable} -m localspec --model {model} --screen chat")
    terminal.keys("Enter")
    terminal.wait_for("Ask something")
    terminal.keys("C-q")
    terminal.wait_without("Ask something")
    terminal.type("echo $((6 * 7))")
    terminal.keys("Enter")
    terminal.wait_for("42")
    assert "Traceback" not in terminal.screen()
    assert not _engines(tmp_path)


def _engines(tmp_path: Path) -> list[str]:
    """Processes that still work for this test's folders."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environment = process.info["environ"] or {}
        command = " ".join(process.info["cmdline"] or [])
        if environment.get("LOCALSPEC_HOME") == str(tmp_path / "home") and "spawn_main" in command:
            found.append(command)
    return found
