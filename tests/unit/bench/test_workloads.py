"""Shipped and user's prompts: complete, distinct, and refused with reasons when they are bad."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

import pytest

from localspec.bench.workloads import (
    WORKLOADS,
    BenchPrompt,
    load_workloads,
    parse_workload,
    read_prompts,
)
from localspec.errors import ConfigError, UsageError

ALL = load_workloads()
PROMPTS = [prompt for workload in ALL for prompt in workload.prompts]
WITH_SOURCE = ("rag", "summary", "logs", "edit")


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_has_five_prompts_and_a_version(name: str) -> None:
    (workload,) = load_workloads([name])
    assert workload.name == name
    assert len(workload.prompts) >= 5
    assert workload.version >= 1
    assert all(prompt.workload == name for prompt in workload.prompts)


def test_ids_are_unique_over_all_workloads() -> None:
    assert len({prompt.id for prompt in PROMPTS}) == len(PROMPTS)


def test_no_two_prompts_of_a_workload_are_alike() -> None:
    for workload in ALL:
        for one, other in combinations(workload.prompts, 2):
            likeness = SequenceMatcher(
                None, one.turns[-1].split(), other.turns[-1].split(), autojunk=False
            ).ratio()
            assert likeness < 0.5, (one.id, other.id)


def test_conversations_have_several_turns() -> None:
    (chat,) = load_workloads(["chat"])
    assert all(len(prompt.turns) >= 3 for prompt in chat.prompts)


@pytest.mark.parametrize("prompt", [p for p in PROMPTS if p.workload in WITH_SOURCE])
def test_workloads_about_a_text_carry_one_of_realistic_length(prompt: BenchPrompt) -> None:
    # About four characters to a token: 100 to 600 tokens.
    assert 600 < len(prompt.turns[-1]) < 2800, prompt.id


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_workloads(["poetry"])
    assert "translation" in caught.value.hint


def test_a_bad_file_tells_all_its_problems_at_once() -> None:
    text = """
version = "one"
name = "x"
title = "X"
extra = 1
[[prompts]]
id = "a"
turns = ["hello"]
[[prompts]]
id = "a"
turns = [""]
"""
    with pytest.raises(ConfigError) as caught:
        parse_workload(text, "x.toml")
    assert caught.value.fields["problems"] == [
        "unknown key 'extra'",
        "version is missing or not int",
        "a: a turn is empty or not a string",
        "id 'a' is used twice",
    ]


def test_plain_text_has_one_prompt_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("first\nsecond\n\n", encoding="utf-8")
    assert [p.turns for p in read_prompts(path).prompts] == [("first",), ("second",)]


def test_blank_lines_separate_prompts_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("one\nmore of one\n\ntwo\n", encoding="utf-8")
    assert [p.turns for p in read_prompts(path).prompts] == [("one\nmore of one",), ("two",)]


def test_json_lines_hold_strings_prompts_or_conversations(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('"a"\n{"prompt": "b", "id": "named"}\n\n{"turns": ["c", "d"]}\n')
    prompts = read_prompts(path).prompts
    assert [(p.id, p.turns) for p in prompts] == [
        ("own-1", ("a",)),
        ("named", ("b",)),
        ("own-3", ("c", "d")),
    ]


def test_bad_json_lines_are_all_named_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "b", "promt": "c"}\n7\n{"turns": []}\n')
    with pytest.raises(ConfigError) as caught:
        read_prompts(path)
    assert caught.value.fields["problems"] == [
        "line 1: unknown key 'promt'",
        "line 2: neither a string nor an object",
        "line 3: turns is not a list of strings",
    ]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_a_prompt_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match="no prompt"):
        read_prompts(path)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "none.txt"
    with pytest.raises(UsageError) as raised:
        read_prompts(path)
    assert str(raised.value) == f"cannot read the prompts in {path}: No such file or directory"
