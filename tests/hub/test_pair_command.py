"""`pair add`, `pair find`, `list FOLDER`, `list --for`: what the command line shows and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localspec.cli import memory_glance
from localspec.cli.app import run_program
from tests.hub.conftest import World
from tests.support.tiny_gguf import write_tiny


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "my models"
    folder.mkdir()
    write_tiny(folder / "target.gguf", "llama", n_layer=30)
    write_tiny(folder / "draft.gguf", "llama", n_layer=1)
    write_tiny(folder / "foreign.gguf", "llama", n_layer=1, n_vocab=640)
    return folder


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run_program([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_added_pair_is_listed_with_both_files(
    models: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    target, draft = str(models / "target.gguf"), str(models / "draft.gguf")
    added = _json(capsys, "pair", "add", target, draft, "--id", "mine", "--draft-max", "5")
    assert added == {"id": "mine", "file": str(world.paths.user_catalog)}
    (row,) = _json(capsys, "list", "mine")
    assert (row["method"], row["fits"]) == ("draft", True)
    assert row["target"]["on_disk"]
    assert row["draft"]["path"] == draft


def test_pair_that_cannot_work_is_exit_code_5_and_not_written(
    models: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pair", "add", str(models / "target.gguf"), str(models / "foreign.gguf")]
    assert run_program(arguments) == 5
    assert "640" in capsys.readouterr().err
    assert not world.paths.user_catalog.exists()
    assert run_program([*arguments, "--force"]) == 0


def test_missing_file_is_exit_code_6(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["pair", "add", str(models / "nobody.gguf")]) == 6


def test_a_repository_alone_is_no_model_of_a_pair(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["pair", "add", "owner/repo", str(models / "draft.gguf")]) == 2
    assert "owner/repo/file.gguf" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("list", "--for"), ("pair", "find")])
def test_drafts_are_found_beside_the_target(
    command: tuple[str, str], models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _json(capsys, *command, str(models / "target.gguf"), "--offline")
    assert [Path(c["name"]).name for c in found["candidates"]] == ["draft.gguf"]
    assert found["candidates"][0]["vocabulary"] == "identical"
    assert found["candidates"][0]["small_enough"]


def test_folder_is_listed_with_what_each_file_is(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "broken.gguf").write_bytes(b"GGUF")
    rows = {Path(row["id"]).stem: row for row in _json(capsys, "list", str(models))}
    assert set(rows) == {"target", "draft", "foreign", "broken"}
    assert rows["target"]["header"]["architecture"] == "llama"
    assert rows["target"]["fits"] is True
    assert rows["target"]["headroom"] > 0
    assert rows["broken"]["fits"] is None
    assert rows["broken"]["header"]["problem"]


def test_what_does_not_fit_says_what_is_missing(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_glance, "usable_memory", lambda _: 1000)
    rows = _json(capsys, "list", str(models))
    assert {row["fits"] for row in rows} == {False}
    assert all(row["headroom"] < 0 for row in rows)
    assert run_program(["list", str(models)]) == 0
    assert "short" in capsys.readouterr().out


def test_a_larger_draft_needs_more(models: Path) -> None:
    from localspec.ggufmeta.header import read_header

    target, draft = read_header(models / "target.gguf"), read_header(models / "draft.gguf")
    alone = memory_glance.required_bytes(target, None)
    assert alone > target.tensor_bytes
    assert memory_glance.required_bytes(target, draft) > alone + draft.tensor_bytes


@pytest.mark.parametrize(("usable", "quant"), [(1 << 40, "Q8_0"), (0, "Q2_K")])
def test_quantisation_is_chosen_by_what_this_machine_can_hold(
    usable: int,
    quant: str,
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"Q2_K": 1, "Q4_K_M": 2, "Q8_0": 4}
    files = {
        f"Fox-{name}.gguf": write_tiny(tmp_path / name, "llama", n_layer=layers).read_bytes()
        for name, layers in sizes.items()
    }
    world.hub.add("someone/Fox-GGUF", files)
    monkeypatch.setattr(memory_glance, "usable_memory", lambda _: usable)
    plan = _json(capsys, "pull", "someone/Fox-GGUF", "--dry-run")
    assert [file["name"] for file in plan["files"]] == [f"Fox-{quant}"]


def _warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]


@pytest.mark.parametrize("command", [("check",), ("pair", "add"), ("pair", "add", "--force")])
@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        ("target", "target", "same file"),
        ("target", "copy", "as large as"),
        ("draft", "target", "larger than"),
        ("target", "draft", None),
    ],
)
def test_draft_that_cannot_win_is_warned_of_in_one_line(
    command: tuple[str, ...],
    target: str,
    draft: str,
    said: str | None,
    models: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_tiny(models / "copy.gguf", "llama", n_layer=30)
    names = [str(models / f"{name}.gguf") for name in (target, draft)]
    assert run_program([*command, *names]) == 0
    warnings = _warnings(capsys)
    assert len(warnings) == (0 if said is None else 1)
    assert said is None or said in warnings[0]


def test_target_in_fewer_bits_is_not_offered_as_its_draft(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = models / "target-Q2_K.gguf"
    write_tiny(small, "llama", n_layer=30)
    # The file of the target grows, as unquantised weights would make it.
    with (models / "target.gguf").open("ab") as file:
        file.truncate(10 * small.stat().st_size)
    found = _json(capsys, "list", "--for", str(models / "target.gguf"), "--offline")
    assert [Path(c["name"]).name for c in found["candidates"]] == ["draft.gguf"]


@pytest.mark.parametrize("flags", [(), ("--json",), ("--local",)])
def test_folder_that_is_not_there_is_a_usage_error(
    flags: tuple[str, ...], models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["list", str(models / "nobody"), *flags]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert run_program(["list", str(models / "target.gguf"), *flags]) == 2
    assert f"localspec list {models}" in capsys.readouterr().err


def test_text_without_a_match_is_told_and_is_no_error(
    models: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = models / "empty"
    empty.mkdir()
    for what in ("zzz", "zzz/repo", str(empty)):
        assert run_program(["list", what]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert what in captured.err
    assert _json(capsys, "list", "zzz") == []
