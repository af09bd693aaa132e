"""Whatever goes wrong, in whatever order: the right bytes under the final name, or no such file."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localspec.catalog.load import build_catalog
from localspec.errors import DownloadError
from localspec.hub.pull import plan_pull, pull
from localspec.hub.resolve import resolve
from localspec.paths import Paths
from tests.hub.conftest import FAST
from tests.support.fake_hub import FakeHub, Fault, HubFile

SIZE = 200_000
NAME = "model-Q4_K_M.gguf"
QUICK = replace(FAST, base_s=0.001, longest_s=0.002)

position = st.integers(0, SIZE)
faults = st.one_of(
    position.map(lambda at: Fault(drop_after=at)),
    position.map(lambda at: Fault(cut_after=at)),
    position.map(lambda at: Fault(cut_after=at, no_range=True)),
    st.integers(0, SIZE - 1).map(lambda at: Fault(flip_byte=at)),
    st.sampled_from([404, 403, 416, 429, 500, 503]).map(lambda status: Fault(status=status)),
    st.just(Fault(no_range=True)),
    st.just(Fault(wrong_range=True)),
)


@pytest.fixture(scope="module")
def shared_hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    tries=st.lists(st.lists(faults, max_size=4), min_size=1, max_size=4),
    changes=st.sets(st.integers(1, 3)),
)
def test_the_file_is_right_or_absent(
    tries: list[list[Fault]],
    changes: set[int],
    shared_hub: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shared_hub.endpoint)
    content = random.Random(1).randbytes(SIZE)
    repo = shared_hub.add("some/one-GGUF", {NAME: content})
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(Path(folder, "c"), Path(folder, "d"), Path(folder, "k"))
        catalog = build_catalog({"schema": 1})
        # After the tries with faults, one without.
        for number, planned in enumerate([*tries, []]):
            if number in changes:
                content = random.Random(100 + number).randbytes(SIZE - number)
                repo.files[NAME] = HubFile(content)
            shared_hub.storage_faults.clear()
            shared_hub.fault(NAME, *planned)
            name = f"some/one-GGUF/{NAME}"
            final = paths.models / "some--one-GGUF" / NAME
            if final.exists():
                break
            try:
                pulled = pull(
                    plan_pull(resolve(name, catalog, paths), policy=QUICK),
                    lambda _: None,
                    policy=QUICK,
                )
            except DownloadError:
                assert not final.exists()
                assert planned, "without a fault it must succeed"
            else:
                assert pulled[0].path == final
                assert final.read_bytes() == content
        assert final.exists()
