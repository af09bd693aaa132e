"""Prompts to measure with: those that ship with the program, and the user's own.

The shipped ones are data files of this package, one per workload, in the categories of Spec-Bench
(arXiv:2401.07851) and SPEED-Bench; every text was written for localspec. A file's `version` goes
up whenever one of its prompts changes, so that remembered results are never compared across texts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from localspec.errors import ConfigError, UsageError

WORKLOADS = (
    "chat",
    "translation",
    "summary",
    "qa",
    "math",
    "rag",
    "code",
    "edit",
    "json",
    "logs",
)
"""Names of the shipped workloads, in the order of tables and charts."""

OWN = "own"
"""Name of the workload that holds the prompts of `--prompts FILE`."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One conversation whose last answer is measured."""

    id: str
    """Unique over all workloads."""
    workload: str
    turns: tuple[str, ...]
    """What the user says, in order. Answers to all but the last turn are made by plain decoding
    before anything is measured, so that every method continues the same conversation."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    version: int
    prompts: tuple[BenchPrompt, ...]

    def first(self, count: int) -> Workload:
        """This workload with its first `count` prompts."""
        return Workload(self.name, self.title, self.version, self.prompts[:count])


def load_workloads(names: Iterable[str] = WORKLOADS) -> tuple[Workload, ...]:
    """The shipped workloads of these names. Raises UsageError for an unknown name."""
    found = []
    for name in names:
        if name not in WORKLOADS:
            raise UsageError(
                f"{name!r} is not a workload", hint=f"one of {', '.join(WORKLOADS)}", workload=name
            )
        file = resources.files("localspec.bench").joinpath("workloads", f"{name}.toml")
        found.append(parse_workload(file.read_text(encoding="utf-8"), f"{name}.toml"))
    return tuple(found)


def parse_workload(text: str, origin: str) -> Workload:
    """A workload from TOML text. Raises ConfigError that lists everything wrong in it at once.

    origin: what the text is called in the error.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not TOML: {error}", file=origin) from error
    problems = _problems(data)
    if problems:
        raise ConfigError(f"{origin}: {'; '.join(problems)}", file=origin, problems=problems)
    name: str = data["name"]
    return Workload(
        name,
        data["title"],
        data["version"],
        tuple(BenchPrompt(item["id"], name, tuple(item["turns"])) for item in data["prompts"]),
    )


def read_prompts(path: Path) -> Workload:
    """The user's own prompts as one workload.

    A `.jsonl` file has one JSON value per line: a string, or an object with `prompt` (a string) or
    `turns` (a list of strings), and `id` if wanted. Any other file is plain text: prompts are
    separated by blank lines, or stand one on each line when there is no blank line.
    Raises UsageError for a file that cannot be read or holds no prompt, ConfigError for bad lines.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the prompts in {path}: {reason}",
            hint="a UTF-8 file, one prompt on each line or JSON lines",
            path=str(path),
        ) from error
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        conversations = _from_json_lines(text, path)
    else:
        conversations = [("", (prompt,)) for prompt in _from_plain_text(text)]
    if not conversations:
        raise UsageError(f"{path} holds no prompt", hint="one prompt on each line", path=str(path))
    prompts = tuple(
        BenchPrompt(name or f"{OWN}-{index}", OWN, turns)
        for index, (name, turns) in enumerate(conversations, 1)
    )
    repeated = _repeated(prompt.id for prompt in prompts)
    if repeated:
        raise ConfigError(f"{path}: id {repeated[0]!r} is used twice", file=str(path))
    return Workload(OWN, path.name, 1, prompts)


def _from_plain_text(text: str) -> list[str]:
    whole = text.strip()
    pieces = re.split(r"\n[ \t]*\n", whole.replace("\r\n", "\n"))
    if len(pieces) == 1:
        pieces = whole.splitlines()
    return [piece.strip() for piece in pieces if piece.strip()]


def _from_json_lines(text: str, path: Path) -> list[tuple[str, tuple[str, ...]]]:
    conversations: list[tuple[str, tuple[str, ...]]] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            conversations.append(_conversation(json.loads(line)))
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise ConfigError(
            f"{path}: {'; '.join(problems)}",
            hint='a line is "text", {"prompt": "text"} or {"turns": ["text", "text"]}',
            file=str(path),
            problems=problems,
        )
    return conversations


def _conversation(value: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(value, str):
        value = {"prompt": value}
    if not isinstance(value, dict):
        raise ValueError("neither a string nor an object")
    unknown = sorted(set(value) - {"id", "prompt", "turns"})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    if ("prompt" in value) == ("turns" in value):
        raise ValueError("needs either prompt or turns")
    turns = value["turns"] if "turns" in value else [value["prompt"]]
    problem = _turns_problem(turns)
    if problem:
        raise ValueError(problem)
    name = value.get("id", "")
    if not isinstance(name, str):
        raise ValueError("id is not a string")
    return name, tuple(turns)


def _problems(data: dict[str, Any]) -> list[str]:
    problems = [
        f"unknown key {key!r}"
        for key in sorted(set(data) - {"version", "name", "title", "prompts"})
    ]
    problems += [
        f"{key} is missing or not {kind.__name__}"
        for key, kind in (("version", int), ("name", str), ("title", str), ("prompts", list))
        if not isinstance(data.get(key), kind)
    ]
    prompts = data.get("prompts")
    if not isinstance(prompts, list):
        return problems
    ids = []
    for index, item in enumerate(prompts):
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            problems.append(f"prompts[{index}] has no id")
            continue
        ids.append(item["id"])
        problems += [
            f"{item['id']}: unknown key {key!r}" for key in sorted(set(item) - {"id", "turns"})
        ]
        problem = _turns_problem(item.get("turns"))
        if problem:
            problems.append(f"{item['id']}: {problem}")
    return problems + [f"id {name!r} is used twice" for name in _repeated(ids)]


def _turns_problem(turns: Any) -> str:
    if not isinstance(turns, list) or not turns:
        return "turns is not a list of strings"
    if not all(isinstance(turn, str) and turn.strip() for turn in turns):
        return "a turn is empty or not a string"
    return ""


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
