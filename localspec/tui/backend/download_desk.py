"""Downloads in threads of their own; the list is kept on disk, so that a restart goes on."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.chats.store import write_whole
from localspec.errors import LocalspecError
from localspec.events import DownloadProgress
from localspec.tui.backend.views import Download, DownloadFile

if TYPE_CHECKING:
    from localspec.hub.control import PullControl
    from localspec.hub.resolve import ResolvedPair


class DownloadDesk:
    """One thread for each pair that is fetched. All methods may be called from any thread."""

    def __init__(self, path: Path, resolve: Callable[[str], ResolvedPair]) -> None:
        """path: where the list is kept. resolve: from a name to its files."""
        self._path = path
        self._resolve = resolve
        self._lock = threading.RLock()
        self._items: dict[str, Download] = {}
        self._controls: dict[str, PullControl] = {}
        self._closing = False

    def restore(self) -> None:
        """Go on with what was running when the program ended; what was paused stays so."""
        for model, state in self._read():
            if state == "running":
                self.start(model)
            else:
                with self._lock:
                    self._items[model] = Download(model, "paused")

    def items(self) -> tuple[Download, ...]:
        with self._lock:
            return tuple(self._items.values())

    def start(self, model: str) -> None:
        from localspec.hub.control import PullControl

        with self._lock:
            known = self._items.get(model)
            if known is not None and known.is_active and model in self._controls:
                self.resume(model)
                return
            self._items.pop(model, None)
            self._items[model] = Download(model, "planning")
            control = self._controls[model] = PullControl()
        thread = threading.Thread(
            target=self._run, args=(model, control), name="localspec-download", daemon=True
        )
        thread.start()
        self._keep()

    def pause(self, model: str) -> None:
        with self._lock:
            control = self._controls.get(model)
            if control is None or self._items[model].state not in ("running", "planning"):
                return
            control.pause()
            self._change(model, state="paused")
        self._keep()

    def resume(self, model: str) -> None:
        with self._lock:
            item = self._items.get(model)
            if item is None or item.state != "paused":
                return
            control = self._controls.get(model)
            if control is not None:
                control.resume()
                self._change(model, state="running" if item.files else "planning")
        if control is None:
            self.start(model)
        self._keep()

    def cancel(self, model: str) -> None:
        with self._lock:
            item = self._items.get(model)
            if item is None or not item.is_active:
                return
            self._change(model, state="cancelled", message="cancelled; what arrived is kept")
            control = self._controls.pop(model, None)
            if control is not None:
                control.cancel()
        self._keep()

    def forget(self, model: str) -> None:
        with self._lock:
            if model in self._items and not self._items[model].is_active:
                del self._items[model]

    def close(self) -> None:
        """Stop the threads; the list on disk still says what was running."""
        self._keep()
        with self._lock:
            self._closing = True
            for control in self._controls.values():
                control.cancel()

    def _run(self, model: str, control: PullControl) -> None:
        try:
            resolved = self._resolve(model)
            self._fetch(
                resolved,
                control,
                lambda event: self._progress(model, control, event),
                lambda note: self._note(model, control, note),
            )
        except LocalspecError as error:
            if control.cancelled:
                return
            self._end(model, control, "failed", error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - a thread's own edge: shown in its row
            self._end(model, control, "failed", f"{type(error).__name__}: {error}", "r tries again")
        else:
            self._end(model, control, "done", None, "")

    def _fetch(
        self,
        resolved: ResolvedPair,
        control: PullControl,
        told: Callable[[DownloadProgress], None],
        noted: Callable[[str], None],
    ) -> None:
        """Raises DownloadError, and Cancelled once `control` is cancelled."""
        from localspec.hub.pull import plan_pull, pull

        plan = plan_pull(resolved, control=control)
        for file in plan.files:
            done, stage = (file.size, "done") if file.on_disk else (file.arrived, "waiting")
            told(DownloadProgress(file.role, file.name, done, file.size, 0.0, stage))
        pull(plan, told, on_note=noted, control=control)

    def _progress(self, model: str, control: PullControl, event: DownloadProgress) -> None:
        with self._lock:
            item = self._items.get(model)
            if item is None or self._controls.get(model) is not control:
                return
            new = DownloadFile(
                event.role, event.name, event.done, event.total, event.rate, event.stage
            )
            same = [f.role == new.role and f.name == new.name for f in item.files]
            files = tuple(new if s else f for s, f in zip(same, item.files, strict=True))
            state = "running" if item.state == "planning" else item.state
            self._change(model, state=state, files=files if any(same) else (*item.files, new))

    def _note(self, model: str, control: PullControl, note: str) -> None:
        """What is unusual and no failure: shown below the files."""
        with self._lock:
            self._change(model, message=note, only=control)

    def _end(
        self, model: str, control: PullControl, state: str, message: str | None, hint: str
    ) -> None:
        """message: None keeps what was noted on the way."""
        with self._lock:
            if self._controls.get(model) is not control:
                return
            del self._controls[model]
            self._change(model, state=state, message=message, hint=hint)
        self._keep()

    def _change(
        self,
        model: str,
        *,
        state: str | None = None,
        files: tuple[DownloadFile, ...] | None = None,
        message: str | None = None,
        hint: str | None = None,
        only: PullControl | None = None,
    ) -> None:
        item = self._items.get(model)
        if item is None or (only is not None and self._controls.get(model) is not only):
            return
        if state in ("paused", "done", "failed", "cancelled"):
            files = tuple(replace(f, rate=0.0) for f in (item.files if files is None else files))
        self._items[model] = replace(
            item,
            state=item.state if state is None else state,
            files=item.files if files is None else files,
            message=item.message if message is None else message,
            hint=item.hint if hint is None else hint,
        )

    def _keep(self) -> None:
        with self._lock:
            if self._closing:
                return
            kept = [
                [item.id, "paused" if item.state == "paused" else "running"]
                for item in self._items.values()
                if item.is_active
            ]
        # A list that cannot be kept must not stop a download.
        with contextlib.suppress(LocalspecError):
            write_whole(self._path, json.dumps(kept) + "\n")

    def _read(self) -> list[tuple[str, str]]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        if not isinstance(data, list):
            return []
        return [
            (item[0], item[1])
            for item in data
            if isinstance(item, list) and len(item) == 2 and all(isinstance(x, str) for x in item)
        ]
