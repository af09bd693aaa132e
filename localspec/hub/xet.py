"""The Hub's Xet transfer, for files that its plain HTTP does not serve.

Plain HTTP goes on where it broke off, even after the process was killed; Xet begins anew (its own
chunk cache spares some of it). So it is taken only where it must be, or where the user asks for
it with HF_XET_HIGH_PERFORMANCE.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec.hub.control import PullControl
from localspec.hub.failures import TransferBroken, outside_errors
from localspec.hub.progress import FileProgress

if TYPE_CHECKING:
    from localspec.hub.client import RemoteFile

_TRUE = ("1", "ON", "YES", "TRUE")


def wants_xet(remote: RemoteFile) -> bool:
    """Whether this file should come by Xet."""
    if remote.xet is None or os.environ.get("HF_HUB_DISABLE_XET", "").upper() in _TRUE:
        return False
    from huggingface_hub import constants
    from huggingface_hub.utils._runtime import is_xet_available

    asked = os.environ.get("HF_XET_HIGH_PERFORMANCE", "").upper() in _TRUE
    return (asked or remote.size > constants.MAX_HTTP_DOWNLOAD_SIZE) and is_xet_available()


def receive_by_xet(
    remote: RemoteFile, path: Path, progress: FileProgress, control: PullControl
) -> None:
    """Fetch all of `remote` to `path`, which is written anew.

    Raises TransferBroken when it does not succeed, Cancelled.
    """
    from huggingface_hub.file_download import xet_get
    from huggingface_hub.utils._headers import build_hf_headers

    progress.start("downloading", 0, remote.size)
    try:
        xet_get(
            incomplete_path=path,
            xet_file_data=remote.xet,  # type: ignore[arg-type]
            headers=build_hf_headers(library_name="localspec"),
            expected_size=remote.size,
            displayed_filename=path.name,
            _tqdm_bar=_Bar(progress, control),
        )
    except outside_errors():
        raise
    except (RuntimeError, ValueError, OSError) as error:
        control.check()
        raise TransferBroken(f"the Xet transfer failed: {error}") from error
    control.check()
    if not path.is_file() or path.stat().st_size != remote.size:
        raise TransferBroken("the Xet transfer ended early")


class _Bar:
    """What huggingface_hub takes for a progress bar."""

    def __init__(self, progress: FileProgress, control: PullControl) -> None:
        self._progress = progress
        self._control = control
        self.total = 0

    def update(self, count: float | None = 1) -> None:
        self._progress.advance(int(count or 0))
        if self._control.cancelled:
            from huggingface_hub.utils._xet import abort_xet_session

            abort_xet_session()  # type: ignore[no-untyped-call]

    def set_postfix_str(self, *_: Any, **__: Any) -> None:
        """The rate is ours to tell."""
