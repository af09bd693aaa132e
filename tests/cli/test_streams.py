"""Streams that are closed, full or ended from outside: one line, a code, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.tiny_gguf import write_tiny

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells and devices")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("streams") / "tiny.gguf", "llama", n_ctx_train=8192)


def shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m localspec"
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("localspec", program, 1)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LOCALSPEC_HOME": str(home)},
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_is_one_line(model: Path, tmp_path: Path, options: str) -> None:
    done = shell(f"localspec run {model} hi --max-tokens 4 {options} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1
    assert "cannot write the output" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_output_is_silent(model: Path, tmp_path: Path) -> None:
    done = shell(f"localspec run {model} hi --max-tokens 4 >&-", tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_closed_input_is_an_empty_one(model: Path, tmp_path: Path) -> None:
    done = shell(f"localspec run {model} <&-", tmp_path)
    assert done.returncode == 2
    assert "error: the prompt is empty" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_ended_from_outside_it_leaves_no_file(
    model: Path, tmp_path: Path, how: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "localspec", "run", str(model), "hi", "--max-tokens", "6000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LOCALSPEC_HOME": str(tmp_path), "TMPDIR": str(temporary)},
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(how)
    process.communicate(timeout=20)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    deadline = time.monotonic() + 10
    while (left := list(temporary.glob("*.log"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def test_a_file_that_the_user_names_as_cache_is_never_touched(model: Path, tmp_path: Path) -> None:
    letter = tmp_path / "letter.bin"
    letter.write_bytes(b"Dear all, this is no lookup cache.")
    done = shell(
        f"localspec run {model} hi --max-tokens 8 --draft ngram --lookup-dynamic {letter}", tmp_path
    )
    assert done.returncode == 0
    assert "warning: letter.bin" in done.stderr
    assert letter.read_bytes() == b"Dear all, this is no lookup cache."
    assert [path.name for path in tmp_path.iterdir() if "letter" in path.name] == ["letter.bin"]


def test_a_cache_that_cannot_be_saved_is_told(model: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lookup").write_text("a file where a folder has to be")
    done = shell(f"localspec run {model} hi --max-tokens 8 --draft ngram", tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("warning:")


@pytest.mark.parametrize("options", ["--ctx 8", "--draft-min 20 --draft-max 4", "--seed -5"])
def test_settings_that_cannot_be_meant_are_refused(
    model: Path, tmp_path: Path, options: str
) -> None:
    done = shell(f"localspec run {model} hi {options}", tmp_path)
    assert done.returncode == 2
    assert " ".join(options.split()[:2]) in done.stderr
