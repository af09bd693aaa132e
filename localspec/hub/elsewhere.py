"""Model files that other programs have downloaded already: found, and used where they lie."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import HubSource
from localspec.hub.names import quant_in
from localspec.hub.safename import safe_relative

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a folder that is not ours."""

    path: Path
    found_in: str
    """`Hub cache`, `LM Studio`, `Ollama` or `llama.cpp`."""
    sha256: str | None = None
    """Where the folder names its files by their hash; None elsewhere."""


def find_elsewhere(source: HubSource, sha256: str | None, size: int | None) -> FoundFile | None:
    """The file of `source` in another program's folder, or None.

    A file that is known to be another one, by hash or size, does not count.
    """
    if source.filename is None:
        return None
    relative = Path(safe_relative(source.filename))
    for found in _candidates(source, relative, sha256):
        if not found.path.is_file():
            continue
        if sha256 is not None and found.sha256 is not None and found.sha256 != sha256:
            continue
        if size is not None and found.path.stat().st_size != size:
            continue
        return found
    return None


def repository_files(source: HubSource) -> list[str]:
    """Names of the GGUF files that other programs have of a repository.

    Ollama does not keep the names.
    """
    folders = [snapshot for _, cache in hub_caches() for snapshot in _snapshots(cache, source)]
    names: set[str] = set()
    if source.revision is None:
        folders += [folder / source.repo for folder in lm_studio_folders()]
        names.update(_flat_names(source.repo))
    for folder in folders:
        names.update(path.relative_to(folder).as_posix() for path in folder.rglob("*.gguf"))
    return sorted(names)


def _flat_names(repo: str) -> Iterator[str]:
    """What follows `owner_repo_` in the names of llama.cpp's files."""
    prefix = f"{repo.replace('/', '_')}_"
    for folder in llama_cpp_folders():
        for path in folder.glob(f"{prefix}*.gguf"):
            name = path.name.removeprefix(prefix)
            # `a_b_c-GGUF_file` is of a/b_c-GGUF, not a file of a/b.
            if "gguf_" not in name.lower():
                yield name


def _candidates(source: HubSource, relative: Path, sha256: str | None) -> Iterator[FoundFile]:
    owner, _, name = source.repo.partition("/")
    for label, cache in hub_caches():
        for snapshot in _snapshots(cache, source):
            path = snapshot / relative
            # The Hub's cache links to a file that is named by its hash.
            blob = path.resolve().name if path.is_symlink() else ""
            yield FoundFile(path, label, blob if _SHA256.fullmatch(blob) else None)
    if source.revision is None:
        for folder in lm_studio_folders():
            yield FoundFile(folder / owner / name / relative, "LM Studio")
        for folder in llama_cpp_folders():
            flat = f"{owner}_{name}_{relative.as_posix()}".replace("/", "_")
            yield FoundFile(folder / flat, "llama.cpp")
    for folder in _ollama_folders():
        hashes = [sha256] if sha256 else _ollama_hashes(folder, source)
        for digest in hashes:
            yield FoundFile(folder / "blobs" / f"sha256-{digest}", "Ollama", digest)


def _snapshots(cache: Path, source: HubSource) -> Iterator[Path]:
    """Folders of the revision asked for; of any, when the cache knows no `main`."""
    repo = cache / f"models--{source.repo.replace('/', '--')}"
    revision = source.revision or "main"
    reference = repo / "refs" / revision
    try:
        commit = reference.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        commit = revision
    exact = repo / "snapshots" / commit
    if exact.is_dir():
        yield exact
    elif source.revision is None and (repo / "snapshots").is_dir():
        yield from sorted((repo / "snapshots").iterdir())


def hub_caches() -> Iterator[tuple[str, Path]]:
    """Caches in the Hub's layout, with whose they are."""
    home = Path(os.environ.get("HF_HOME") or _cache_home() / "huggingface").expanduser()
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    yield "Hub cache", Path(os.path.expandvars(named)).expanduser() if named else home / "hub"
    if os.environ.get("LLAMA_CACHE"):
        yield "llama.cpp", Path(os.environ["LLAMA_CACHE"]).expanduser()


def lm_studio_folders() -> Iterator[Path]:
    """Folders of `owner/repo/file.gguf`."""
    home = Path.home() / ".lmstudio"
    pointer = Path.home() / ".lmstudio-home-pointer"
    if pointer.is_file():
        home = Path(pointer.read_text(encoding="utf-8", errors="replace").strip())
    settings = _json(home / "settings.json")
    chosen = settings.get("downloadsFolder")
    if isinstance(chosen, str) and chosen:
        yield Path(chosen)
    yield home / "models"
    yield Path.home() / ".cache" / "lm-studio" / "models"


def llama_cpp_folders() -> Iterator[Path]:
    """Folders of `owner_repo_file.gguf`."""
    if os.environ.get("LLAMA_CACHE"):
        yield Path(os.environ["LLAMA_CACHE"]).expanduser()
    elif sys.platform == "darwin":
        yield Path.home() / "Library" / "Caches" / "llama.cpp"
    elif sys.platform == "win32":
        yield Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "llama.cpp"
    else:
        yield _cache_home() / "llama.cpp"


def _ollama_folders() -> Iterator[Path]:
    if os.environ.get("OLLAMA_MODELS"):
        yield Path(os.environ["OLLAMA_MODELS"]).expanduser()
    else:
        yield Path.home() / ".ollama" / "models"
        if sys.platform == "linux":
            yield Path("/usr/share/ollama/.ollama/models")


def _ollama_hashes(folder: Path, source: HubSource) -> list[str]:
    """Hashes of what Ollama pulled from this repository of the Hub in this quantisation."""
    quant = quant_in(source.filename or "")
    if quant is None:
        return []
    hashes = []
    for host in ("hf.co", "huggingface.co"):
        tags = folder / "manifests" / host / source.repo
        manifests = sorted(tags.iterdir()) if tags.is_dir() else []
        for manifest in manifests:
            if manifest.name.upper() != quant:
                continue
            layers = _json(manifest).get("layers")
            for layer in layers if isinstance(layers, list) else []:
                digest = str(layer.get("digest", "")).removeprefix("sha256:")
                if layer.get("mediaType") == _OLLAMA_MODEL and _SHA256.fullmatch(digest):
                    hashes.append(digest)
    return hashes


def _json(path: Path) -> dict[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
