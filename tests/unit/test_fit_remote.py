"""Headers of models on the Hub: read without the model, kept, and turned into ghosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.catalog.entries import HubSource
from localspec.cli.app import run_program
from localspec.errors import BadModelFile, DownloadError
from localspec.ggufmeta.header import read_header
from localspec.hub.client import HubClient
from localspec.hub.failures import RetryPolicy
from localspec.hub.found_header import FoundHeader
from localspec.hub.remote_header import fetch_header, other_quants
from tests.support.fake_hub import FakeHub, Fault, HubFile
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import write_tiny

REPO, FILE = "someone/R1-7B-GGUF", "R1-7B-Q4_K_M.gguf"
MB = 1000 * 1000


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("LOCALSPEC_HOME", str(tmp_path / "localspec"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.endpoint)
        yield fake


@pytest.fixture
def large(hub: FakeHub, tmp_path: Path) -> Path:
    """A 4.6 GB model with a header of three megabytes, and a smaller quantisation beside it."""
    path = write_ghost_of("deepseek-r1-distill-qwen-7b", tmp_path / "large.gguf")
    small = write_tiny(tmp_path / "small.gguf", "llama")
    hub.add(REPO, {FILE: HubFile(path, sha256="a" * 64), "R1-7B-Q2_K.gguf": small})
    return path


def client() -> HubClient:
    return HubClient(RetryPolicy(attempts=3, base_s=0.01, longest_s=0.05))


def sent(hub: FakeHub) -> int:
    return sum(end - begin for spans in hub.sent.values() for begin, end in spans)


def test_header_is_read_without_the_model(hub: FakeHub, large: Path) -> None:
    found = fetch_header(HubSource(REPO, FILE), client())
    local = read_header(large)
    assert found.header.tensors == local.tensors
    assert found.header.parts[0].full_size == large.stat().st_size
    assert found.fetched < local.parts[0].header_size + MB
    assert found.fetched < 12 * MB


def test_second_time_nothing_is_fetched(hub: FakeHub, large: Path, tmp_path: Path) -> None:
    first = fetch_header(HubSource(REPO, FILE), client(), tmp_path / "cache")
    before = sent(hub)
    again = fetch_header(HubSource(REPO, FILE), client(), tmp_path / "cache")
    assert again.fetched == 0
    assert sent(hub) == before
    assert again.header.tensors == first.header.tensors
    assert again.data == first.data


def test_kept_header_serves_when_the_hub_is_away(
    hub: FakeHub, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch_header(HubSource(REPO, FILE), client(), tmp_path / "cache")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    again = fetch_header(HubSource(REPO, FILE), client(), tmp_path / "cache")
    assert again.header.tensors == first.header.tensors
    with pytest.raises(DownloadError):
        fetch_header(HubSource(REPO, "R1-7B-Q2_K.gguf"), client(), tmp_path / "cache")


def test_broken_connection_is_tried_again(hub: FakeHub, large: Path) -> None:
    hub.fault(FILE, Fault(drop_after=100_000))
    found = fetch_header(HubSource(REPO, FILE), client())
    assert found.header.architecture == "qwen2"


def test_repository_alone_means_the_usual_quantisation(hub: FakeHub, large: Path) -> None:
    found = fetch_header(HubSource(REPO), client())
    assert found.source.filename == FILE
    assert [v.quant for v in other_quants(found.source, client())] == ["Q2_K"]


def test_file_that_is_not_there_is_a_download_error(hub: FakeHub, large: Path) -> None:
    with pytest.raises(DownloadError):
        fetch_header(HubSource(REPO, "nothing.gguf"), client())


def test_file_that_is_not_gguf_is_refused(hub: FakeHub) -> None:
    hub.add("someone/text", {"a.gguf": b"<html>not here</html>" * 50})
    with pytest.raises(BadModelFile, match="not a GGUF file"):
        fetch_header(HubSource("someone/text", "a.gguf"), client())


def test_ghost_of_a_remote_model_is_as_long_as_the_model(
    hub: FakeHub, large: Path, tmp_path: Path
) -> None:
    remote = fetch_header(HubSource(REPO, FILE), client())
    ghost = FoundHeader(remote.header, None, remote.data).ghost(tmp_path / "ghost")
    assert ghost.stat().st_size == large.stat().st_size
    assert read_header(ghost).tensors == remote.header.tensors
    # Sparse: the blocks on the disk are those of the header.
    assert ghost.stat().st_blocks * 512 < 12 * MB


def test_fit_answers_for_a_model_that_is_not_here(
    hub: FakeHub, large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_program(["fit", f"{REPO}:Q4_K_M", "--vram", "4GiB", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 4
    assert found["fits"] is False
    assert found["devices"][0]["total"] == 4 * 1024**3
    assert found["source"] == "estimate"
    changes = [suggestion["change"] for suggestion in found["suggestions"]]
    assert f"{REPO}:Q2_K" in changes
    assert sent(hub) < 12 * MB


@pytest.mark.parametrize(
    ("vram", "chosen"), [("64GiB", "R1-7B-Q8_0.gguf"), ("9GiB", FILE), ("1GiB", "R1-7B-Q2_K.gguf")]
)
def test_repository_alone_is_measured_as_pull_would_choose_for_that_machine(
    hub: FakeHub, large: Path, capsys: pytest.CaptureFixture[str], vram: str, chosen: str
) -> None:
    larger = write_ghost_of("qwen3-32b", large.parent / "larger.gguf")
    small = write_tiny(large.parent / "small2.gguf", "llama")
    hub.add(
        REPO,
        {
            FILE: HubFile(large, sha256="a" * 64),
            "R1-7B-Q8_0.gguf": HubFile(larger, sha256="b" * 64),
            "R1-7B-Q2_K.gguf": small,
        },
    )
    run_program(["fit", REPO, "--vram", vram, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["id"] == f"{REPO}/{chosen}"
    assert found["notes"][-1].startswith(chosen)


def test_table_goes_on_after_a_row_that_has_no_answer(
    hub: FakeHub, large: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf", "llama")
    code = run_program(["fit", str(tiny), f"{REPO}:Q9_9", "--vram", "4GiB", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == 3, "a model that was named and not answered is no success"
    assert rows[0]["fits"] is True
    assert rows[1]["id"] == f"{REPO}:Q9_9"
    assert "names no GGUF file" in rows[1]["error"]
