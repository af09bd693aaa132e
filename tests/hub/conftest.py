"""One fake Hub and one empty home for each test; nothing of the real user or network is seen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localspec.catalog.load import Catalog, build_catalog
from localspec.events import DownloadProgress
from localspec.hub.control import PullControl
from localspec.hub.failures import RetryPolicy
from localspec.hub.plan import PullPlan
from localspec.hub.pull import PulledFile, plan_pull, pull
from localspec.hub.resolve import ResolvedPair, resolve
from localspec.paths import Paths
from tests.support.fake_hub import FakeHub

FAST = RetryPolicy(attempts=4, patient_attempts=4, base_s=0.01, longest_s=0.05, longest_asked_s=5.0)

TARGET_REPO, TARGET_FILE = "someone/Big-8B-GGUF", "Big-8B-Q4_K_M.gguf"
DRAFT_REPO, DRAFT_FILE = "someone/Small-0.5B-GGUF", "Small-0.5B-Q8_0.gguf"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HF_HUB_OFFLINE", "LLAMA_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home" / "hf"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "home" / "token"))
    monkeypatch.setenv("LOCALSPEC_HOME", str(tmp_path / "localspec"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    # A dead connection is noticed after this many seconds.
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        yield fake


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    root = tmp_path / "localspec"
    return Paths(root / "config", root / "data", root / "cache")


@dataclass(slots=True)
class World:
    """A Hub with one pair, and the user's empty folders."""

    hub: FakeHub
    paths: Paths
    catalog: Catalog
    target: bytes
    draft: bytes

    def resolve(self, name: str = "big+small") -> ResolvedPair:
        return resolve(name, self.catalog, self.paths)

    def plan(self, name: str = "big+small") -> PullPlan:
        return plan_pull(self.resolve(name), policy=FAST)

    def pull(
        self,
        name: str = "big+small",
        events: list[DownloadProgress] | None = None,
        control: PullControl | None = None,
    ) -> tuple[PulledFile, ...]:
        seen = [] if events is None else events
        return pull(self.plan(name), seen.append, policy=FAST, control=control)

    @property
    def finished(self) -> list[str]:
        """Names of the files under their final names."""
        root = self.paths.models
        visible = (path for path in root.rglob("*") if path.is_file())
        return sorted(
            path.name for path in visible if not str(path.relative_to(root)).startswith(".")
        )

    def sha256(self, which: str) -> str:
        repo, name = {"target": (TARGET_REPO, TARGET_FILE), "draft": (DRAFT_REPO, DRAFT_FILE)}[
            which
        ]
        return self.hub.repos[repo].files[name].sha256


def catalog_of(*pairs: tuple[str, dict[str, Any], dict[str, Any] | None]) -> Catalog:
    """A catalogue of (id, target table, draft table)."""
    data: dict[str, Any] = {"schema": 1, "models": {}, "pairs": {}}
    for pair_id, target, draft in pairs:
        data["models"][f"{pair_id} target"] = target
        data["pairs"][pair_id] = {"method": "ngram", "target": f"{pair_id} target"}
        if draft is not None:
            data["models"][f"{pair_id} draft"] = draft
            data["pairs"][pair_id] |= {"method": "draft", "draft": f"{pair_id} draft"}
    return build_catalog(data)


@pytest.fixture
def world(hub: FakeHub, paths: Paths) -> World:
    target = random.Random("target").randbytes(3_000_000)
    draft = random.Random("draft").randbytes(400_000)
    big = hub.add(TARGET_REPO, {TARGET_FILE: target})
    small = hub.add(DRAFT_REPO, {DRAFT_FILE: draft})
    catalog = catalog_of(
        (
            "big+small",
            {
                "repo": TARGET_REPO,
                "filename": TARGET_FILE,
                "sha256": big.files[TARGET_FILE].sha256,
            },
            {"repo": DRAFT_REPO, "filename": DRAFT_FILE, "sha256": small.files[DRAFT_FILE].sha256},
        )
    )
    return World(hub, paths, catalog, target, draft)
