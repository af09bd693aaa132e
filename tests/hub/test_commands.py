"""`pull`, `list` and `rm` from the command line: text, JSON, exit codes."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from localspec.cli.app import run_program
from localspec.units import format_file_size
from tests.hub.conftest import DRAFT_FILE, DRAFT_REPO, TARGET_FILE, TARGET_REPO, World
from tests.support.fake_hub import Fault, HubFile


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CATALOG = f"""
schema = 1
[models.big]
repo = "{TARGET_REPO}"
filename = "{TARGET_FILE}"
[models.small]
repo = "{DRAFT_REPO}"
filename = "{DRAFT_FILE}"
[pairs."big+small"]
method = "draft"
target = "big"
draft = "small"
[pairs.big]
method = "ngram"
target = "big"
[pairs."big+head"]
method = "mtp"
target = "big"
draft = "small"
"""


@pytest.fixture(autouse=True)
def _catalog(world: World) -> None:
    world.paths.config.mkdir(parents=True)
    world.paths.user_catalog.write_text(CATALOG, encoding="utf-8")


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_pull_json_streams_progress_and_ends_with_the_files(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["pull", "big+small", "--json"]) == 0
    lines = _json_lines(capsys.readouterr().out)
    assert {line["role"] for line in lines[:-1]} == {"target", "draft"}
    assert lines[-2]["stage"] == "done"
    files = lines[-1]["files"]
    assert [file["role"] for file in files] == ["target", "draft"]
    assert set(files[0]) == {"role", "path", "size", "sha256", "downloaded_bytes", "resumed"}
    assert files[0]["sha256"] == world.sha256("target")


def test_pull_failure_is_exit_code_3_and_one_line(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.hub.fault(TARGET_FILE, Fault(status=404))
    assert run_program(["pull", "big+small"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    errors = [line for line in captured.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert TARGET_FILE in errors[0]


def test_dry_run_downloads_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["pull", "big+small", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["to_fetch"] == len(world.target) + len(world.draft)
    assert [file["size"] for file in plan["files"]] == [len(world.target), len(world.draft)]
    assert world.hub.requests("storage") == []
    assert world.finished == []


def test_method_without_a_drafter_pulls_the_target_and_says_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["pull", "big+head"]) == 0
    assert "mtp drafter is not built yet" in capsys.readouterr().err
    assert world.finished == [TARGET_FILE]


def _listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert run_program(["list", "--json", *arguments]) == 0
    return {row["id"]: row for row in json.loads(capsys.readouterr().out)}


def test_list_shows_what_is_on_disk(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = _listed(capsys)["big+small"]
    assert (before["target"]["on_disk"], before["draft"]["on_disk"]) == (False, False)
    run_program(["pull", "big", "--quiet"])
    after = _listed(capsys)
    assert (after["big+small"]["target"]["on_disk"], after["big"]["draft"]) == (True, None)
    assert after["big+small"]["disk_use"] == len(world.target)
    assert after["big"]["target"]["size"] == len(world.target)
    assert set(_listed(capsys, "--local")) == {"big", "big+small", "big+head"}
    assert "smollm2-135m" in _listed(capsys, "smol")


def test_rm_frees_shared_files_only_when_nobody_needs_them(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(["pull", "big+small", "--quiet"])
    run_program(["pull", "big", "--quiet"])
    assert run_program(["rm", "big+small", "--yes"]) == 0
    assert "big needs it" in capsys.readouterr().out
    assert world.finished == [TARGET_FILE]
    assert run_program(["rm", "big", "--json", "--yes"]) == 0
    assert json.loads(capsys.readouterr().out)["freed"] == len(world.target)
    assert world.finished == []


def test_rm_takes_the_unfinished_bytes_too(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.hub.fault(TARGET_FILE, Fault(cut_after=1_000_000), Fault(status=404))
    assert run_program(["pull", "big"]) == 3
    assert run_program(["rm", "big", "--json", "--yes"]) == 0
    captured = capsys.readouterr()
    assert (
        json.loads(captured.out.splitlines()[-1] if captured.out[0] != "{" else captured.out)[
            "freed"
        ]
        > 0
    )
    partial = world.paths.models / ".partial"
    assert not [path for path in partial.rglob("*.gguf") if path.is_file()]


@pytest.mark.parametrize("flags", [(), ("--no-input",), ("--json",)])
def test_rm_without_a_terminal_needs_a_yes(
    flags: tuple[str, ...], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(["pull", "big+small", "--quiet"])
    capsys.readouterr()
    assert run_program(["rm", "big+small", *flags]) == 2
    error = capsys.readouterr().err
    assert TARGET_FILE in error
    assert DRAFT_FILE in error
    assert "--yes" in error
    assert world.finished == sorted([TARGET_FILE, DRAFT_FILE])
    assert run_program(["rm", "big+small", *flags, "--yes"]) == 0
    assert world.finished == []


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, []), ("n", 2, [TARGET_FILE])])
def test_rm_asks_once_on_a_terminal_with_files_and_bytes(
    answer: str, code: int, left: list[str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_program(["pull", "big", "--quiet"])
    terminals = [Terminal(f"{answer}\n"), Terminal()]
    monkeypatch.setattr("sys.stdin", terminals[0])
    monkeypatch.setattr("sys.stderr", terminals[1])
    assert run_program(["rm", "big"]) == code
    shown = terminals[1].getvalue()
    assert shown.count("[Y/n]") == 1
    size = format_file_size(len(world.target))
    assert f"Delete {TARGET_FILE}, {size}?" in shown
    assert world.finished == left


def test_rm_that_would_delete_nothing_asks_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(["pull", "big+small", "--quiet"])
    run_program(["pull", "big", "--quiet"])
    (world.paths.models / "someone--Small-0.5B-GGUF" / DRAFT_FILE).unlink()
    assert run_program(["rm", "big+small"]) == 0
    assert "big needs it" in capsys.readouterr().out


def test_rm_of_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["rm", "big"]) == 2
    assert "nothing of big is downloaded" in capsys.readouterr().err


def test_a_broken_user_catalogue_is_exit_code_2(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.paths.user_catalog.write_text("[pairs.x]\nmetod = 'ngram'\n", encoding="utf-8")
    assert run_program(["list"]) == 2
    error = capsys.readouterr().err
    assert "pairs.x.metod" in error
    assert "'method'" in error


MISTAKES = """
[pairs.x]
metod = 'ngram'
[models.a]
repo = 3
sise = 5
"""


def test_many_mistakes_of_a_catalogue_are_one_line_each(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.paths.user_catalog.write_text(MISTAKES, encoding="utf-8")
    assert run_program(["list"]) == 2
    first, *more, hint = capsys.readouterr().err.splitlines()
    assert run_program(["list", "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["fields"]["problems"]
    assert len(problems) > 3
    assert first == f"error: {world.paths.user_catalog} has {len(problems)} problems:"
    assert [line.strip() for line in more] == [f"{p['key']}: {p['problem']}" for p in problems]
    assert hint.startswith("hint:")


def test_one_mistake_of_a_catalogue_is_one_line(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.paths.user_catalog.write_text(CATALOG + "[models.z]\nsise = 5\npath = 'z'\n", "utf-8")
    assert run_program(["list"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert "has 1 problem: models.z.sise" in error
    assert hint.startswith("hint:")


def test_file_that_changed_since_the_last_pull_is_noted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{TARGET_REPO}/{TARGET_FILE}"
    world.hub.fault(TARGET_FILE, Fault(drop_after=1_000_000), Fault(status=404))
    assert run_program(["pull", name]) == 3
    world.hub.repos[TARGET_REPO].files[TARGET_FILE] = HubFile(bytes(reversed(world.target)))
    capsys.readouterr()
    assert run_program(["pull", name]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "changed on the Hub" in line]
    assert len(lines) == 1
