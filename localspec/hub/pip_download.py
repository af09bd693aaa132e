"""One wheel, fetched by pip with its own configuration, and what pip's complaints mean."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from localspec.catalog.entries import WheelPart
from localspec.errors import DownloadError
from localspec.hub.control import PullControl

_POLL_S = 0.1
_NETWORK_SIGNS = (
    "Retrying (Retry(",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "SSLError",
    "Temporary failure in name resolution",
    "Connection broken",
    "Connection reset",
    "network is unreachable",
)
_MISSING_SIGNS = ("No matching distribution found", "Could not find a version")
_DISK_SIGNS = ("No space left on device", "Errno 28", "Disk quota exceeded")


def download_wheel(
    part: WheelPart,
    scratch: Path,
    arrived: Callable[[int], None],
    control: PullControl,
) -> Path:
    """The wheel of `part` as pip fetched it, somewhere below `scratch`.

    arrived: told how many bytes of it are there. Raises DownloadError, Cancelled.
    """
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"{part.requirement} is fetched by pip, and this Python has no pip",
            hint=f"{sys.executable} -m ensurepip, or: uv pip install pip",
            python=sys.executable,
        )
    folder = scratch / "wheel"
    unpack = scratch / "tmp"
    for place in (folder, unpack):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
    command += ["--only-binary", ":all:", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["-d", str(folder), part.requirement]
    # pip writes the file it fetches below its temporary folder: that is where progress shows.
    temporary = {name: str(unpack) for name in ("TMPDIR", "TEMP", "TMP")}
    with tempfile.TemporaryFile(dir=scratch) as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **temporary, "PYTHONUTF8": "1"},
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_POLL_S)
                    break
                control.check()
                # pip moves the whole wheel from the one to the other.
                arrived(max(_size_below(unpack), _size_below(folder)))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    wheels = sorted(folder.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise _pip_error(part.requirement, said, code)
    return wheels[0]


def _pip_error(requirement: str, said: str, code: int) -> DownloadError:
    errors = [line[len("ERROR: ") :] for line in said.splitlines() if line.startswith("ERROR: ")]
    last = errors[-1] if errors else (said.strip().splitlines() or [f"exit code {code}"])[-1]
    if any(sign in said for sign in _DISK_SIGNS):
        return DownloadError(
            f"the disk is full: pip could not store {requirement}",
            hint="free some space and pull again",
            requirement=requirement,
        )
    if any(sign in said for sign in _NETWORK_SIGNS):
        return DownloadError(
            f"pip could not reach a package index for {requirement}",
            hint="check the network, the proxy and `pip config list`, then pull again",
            requirement=requirement,
            pip=last,
        )
    if any(sign in said for sign in _MISSING_SIGNS):
        return DownloadError(
            f"no package index that pip knows has {requirement}",
            hint="`pip config list` shows the indexes; a company mirror may have to allow it",
            requirement=requirement,
            pip=last,
        )
    if "do not match" in said.lower() or "hash mismatch" in said.lower():
        return DownloadError(
            f"the package index served {requirement} with a wrong hash",
            hint="pull again; if it stays, the mirror holds a damaged file",
            requirement=requirement,
        )
    return DownloadError(
        f"pip could not fetch {requirement}: {last}", hint="pull again", requirement=requirement
    )


def _size_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # pip renames and deletes while we look.
            with contextlib.suppress(OSError):
                total += Path(place, name).stat().st_size
    return total
