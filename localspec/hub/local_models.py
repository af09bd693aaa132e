"""Every model file on this machine that localspec knows where to look for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec.hub.elsewhere import hub_caches, llama_cpp_folders, lm_studio_folders
from localspec.hub.quants import part_names
from localspec.hub.store import Store
from localspec.paths import Paths

_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "ggml-vocab")
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model file, or the first part of a split one."""

    path: Path
    size: int
    """Bytes, all parts together."""
    found_in: str
    """`localspec`, `folder`, or the program whose folder it lies in."""
    name: str
    """What MODEL may be to mean it."""
    stat: os.stat_result
    """Of the first part."""


def local_models(paths: Paths) -> list[LocalModel]:
    """What lies in localspec's own folder and in those of other programs, each file once."""
    found: dict[Path, LocalModel] = {}
    for model in _everywhere(paths):
        # The Hub's cache links one file from several snapshots.
        found.setdefault(model.path.resolve(), model)
    return list(found.values())


def models_below(folder: Path, found_in: str = "folder") -> Iterator[LocalModel]:
    """The GGUF models in a folder and the folders in it, by name; hidden folders are left out."""
    base_depth = len(folder.parts)
    for place, folders, names in os.walk(folder):
        deep = len(Path(place).parts) - base_depth >= _DEEPEST
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            model = _model(path, found_in, str(path))
            if model is not None:
                yield model


def _everywhere(paths: Paths) -> Iterator[LocalModel]:
    store = Store(paths.models)
    for path in store.files():
        record = store.record(path)
        named = record.origin if record is not None and "/" in record.origin else str(path)
        model = _model(path, "localspec", named)
        if model is not None:
            yield model
    for label, cache in hub_caches():
        for snapshot in sorted(cache.glob("models--*--*/snapshots/*")):
            repo = snapshot.parents[1].name.removeprefix("models--").replace("--", "/", 1)
            yield from _named(snapshot, label, repo)
    for folder in lm_studio_folders():
        for repo_folder in sorted(folder.glob("*/*")):
            if repo_folder.is_dir():
                repo = repo_folder.relative_to(folder).as_posix()
                yield from _named(repo_folder, "LM Studio", repo)
    for folder in llama_cpp_folders():
        if folder.is_dir():
            for path in sorted(folder.glob("*.gguf")):
                model = _model(path, "llama.cpp", str(path))
                if model is not None:
                    yield model


def _named(folder: Path, found_in: str, repo: str) -> Iterator[LocalModel]:
    for path in sorted(folder.rglob("*.gguf")):
        inside = path.relative_to(folder).as_posix()
        model = _model(path, found_in, f"{repo}/{inside}")
        if model is not None:
            yield model


def _model(path: Path, found_in: str, name: str) -> LocalModel | None:
    lower = path.name.lower()
    if not lower.endswith(".gguf") or lower.startswith(_NOT_MODELS) or _LATER_PART.search(lower):
        return None
    try:
        stat = path.stat()
        size = stat.st_size
        for other in part_names(path.name)[1:]:
            size += path.with_name(other).stat().st_size
    except OSError:
        # Gone meanwhile, a dangling link, or a split model without all its parts.
        return None
    return LocalModel(path, size, found_in, name, stat)
