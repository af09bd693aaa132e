"""What local model files are, from their headers; remembered by path, size and time of change."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from localspec.errors import BadModelFile
from localspec.paths import Paths
from localspec.whole_file import write_whole

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class HeaderSummary:
    """A header in one line."""

    architecture: str
    """Empty when the file is no usable GGUF; `problem` says why then."""
    name: str
    """`general.name`, or the file's name."""
    n_parameters: int
    n_vocab: int
    n_ctx_train: int
    vocabulary: str
    """Fingerprint: equal for equal vocabularies; empty when the file has none."""
    problem: str = ""


class HeaderCache:
    """Summaries of headers, kept in the cache folder between runs. Use it with `with`.

    A damaged cache file counts as empty: everything in it can be read again.
    """

    def __init__(self, paths: Paths) -> None:
        self._path = paths.cache / "headers.json"
        self._known: dict[str, dict[str, object]] = self._load()
        self._changed = False

    def __enter__(self) -> HeaderCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.save()

    def summary(self, path: Path, stat: os.stat_result | None = None) -> HeaderSummary:
        """What the file at `path` is; never raises for what the file contains."""
        try:
            stat = stat or path.stat()
        except OSError as error:
            return _unusable(path, error.strerror or str(error))
        key, mark = str(path), [stat.st_size, stat.st_mtime_ns]
        known = self._known.get(key)
        if known is not None and known.get("mark") == mark:
            fields = known.get("summary")
            if isinstance(fields, dict):
                try:
                    return HeaderSummary(**fields)
                except TypeError:
                    pass
        summary = _read(path)
        self._known[key] = {"mark": mark, "summary": asdict(summary)}
        self._changed = True
        return summary

    def save(self) -> None:
        """Write what was learned; a folder that cannot be written costs only time."""
        if not self._changed:
            return
        gone = [key for key in self._known if not Path(key).exists()]
        for key in gone:
            del self._known[key]
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({"format": _FORMAT, "files": self._known}))
        self._changed = False

    def _load(self) -> dict[str, dict[str, object]]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            files = data["files"] if data["format"] == _FORMAT else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {k: v for k, v in files.items() if isinstance(v, dict)} if files else {}


def _read(path: Path) -> HeaderSummary:
    from localspec.ggufmeta.runnable import inspect_model
    from localspec.ggufmeta.vocabulary import fingerprint

    try:
        info = inspect_model(path)
    except BadModelFile as error:
        return _unusable(path, error.message)
    try:
        vocabulary = fingerprint(info.header)
    except BadModelFile:
        vocabulary = ""
    return HeaderSummary(
        architecture=info.architecture,
        name=info.name,
        n_parameters=info.n_parameters,
        n_vocab=info.n_vocab,
        n_ctx_train=info.n_ctx_train,
        vocabulary=vocabulary,
    )


def _unusable(path: Path, problem: str) -> HeaderSummary:
    return HeaderSummary("", path.stem, 0, 0, 0, "", problem)
