"""Where localspec keeps its files. `LOCALSPEC_HOME` puts all of them under one folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders of one user; nothing is created by looking at them."""

    config: Path
    """models.toml of the user, settings."""
    data: Path
    """Models, dynamic lookup caches, chats."""
    cache: Path
    """What can be rebuilt: headers, cost curves, probes."""

    @property
    def models(self) -> Path:
        """Finished model files only; a file here is verified."""
        return self.data / "models"

    @property
    def lookup(self) -> Path:
        """Dynamic lookup caches, one per vocabulary fingerprint."""
        return self.data / "lookup"

    @property
    def chats(self) -> Path:
        return self.data / "chats"

    @property
    def costs(self) -> Path:
        """Measured cost curves, one per model file, device, threads and build."""
        return self.cache / "costs"

    @property
    def calibration(self) -> Path:
        """What loads took beyond their plans, by device."""
        return self.cache / "memory.json"

    @property
    def user_catalog(self) -> Path:
        return self.config / "models.toml"


def user_paths() -> Paths:
    """The folders of this user, by `LOCALSPEC_HOME` or the conventions of the platform."""
    home = os.environ.get("LOCALSPEC_HOME")
    if home:
        root = Path(home).expanduser()
        return Paths(root / "config", root / "data", root / "cache")
    import platformdirs

    return Paths(
        Path(platformdirs.user_config_dir("localspec", appauthor=False)),
        Path(platformdirs.user_data_dir("localspec", appauthor=False)),
        Path(platformdirs.user_cache_dir("localspec", appauthor=False)),
    )
