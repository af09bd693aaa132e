"""`run` with the real engine: bad models and prompts, and answers that come out right."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.support.tiny_gguf import (
    write_embedding_only,
    write_tiny,
    write_unknown_architecture,
    write_vocab_only,
)

pytestmark = pytest.mark.engine


def truncated(path: Path) -> None:
    write_tiny(path, "llama")
    path.write_bytes(path.read_bytes()[:-100_000])


def text(path: Path) -> None:
    path.write_text("Once upon a time.\n" * 50, encoding="utf-8")


def two_to_the_sixty_tensors(path: Path) -> None:
    write_tiny(path, "llama")
    data = path.read_bytes()
    path.write_bytes(data[:8] + struct.pack("<Q", 2**60) + data[16:])


def broken_template(path: Path) -> None:
    write_tiny(path, "llama", chat_template="{% for m in messages %}")


def escaping_template(path: Path) -> None:
    write_tiny(path, "llama", chat_template="{{ ''.__class__.__mro__[1].__subclasses__() }}")


def endless_template(path: Path) -> None:
    loop = "{% for i in range(99999) %}"
    write_tiny(path, "llama", chat_template=loop * 3 + "{% endfor %}" * 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.touch(), "is empty"),
        (truncated, "is truncated"),
        (text, "is not a GGUF file"),
        (two_to_the_sixty_tensors, "claims 1152921504606846976 tensors"),
        (write_embedding_only, "does not generate text"),
        (write_unknown_architecture, "architecture 'quux9'"),
        (write_vocab_only, "no weights"),
        (broken_template, "the chat template is broken in line 1"),
        (escaping_template, "the chat template tries what it may not"),
        (endless_template, "the chat template was stopped"),
    ],
)
def test_a_bad_model_file_is_one_line_and_code_6(
    make: Callable[[Path], object], message: str, program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "bad.gguf"
    make(path)
    done = program("run", path, "hello", "--max-tokens", "4", "--threads", "1")
    assert (done.code, done.out) == (6, "")
    assert done.err_lines[0].startswith("error: ")
    assert message in done.err_lines[0]
    assert done.err_lines[1].startswith("hint: ")
    assert len(done.err_lines) == 2


def test_raw_needs_no_template(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    broken_template(path)
    assert program("run", path, "hello", "--raw", "--max-tokens", "4", "--threads", "1").code == 0


def test_a_prompt_longer_than_the_context_is_told_with_both_sizes(
    program: Program, tiny: Path
) -> None:
    done = program("run", tiny, "long " * 400, "--threads", "1")
    assert (done.code, done.out) == (2, "")
    assert done.err_lines[0].startswith("error: the prompt has ")
    assert "the context 512" in done.err_lines[0]


def test_a_context_larger_than_memory_is_told(program: Program, tiny: Path) -> None:
    done = program("run", tiny, "hi", "--ctx", "1000000000")
    assert done.code == 4
    assert len(done.err_lines) == 2
    assert "1000000000 tokens of context needs" in done.err_lines[0]
    assert done.err_lines[1].startswith("hint: --ctx ")


def test_an_unreadable_lookup_cache_is_a_warning_and_the_answer_comes(
    program: Program, tiny: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.bin"
    text(cache)
    arguments = (
        "run",
        tiny,
        "hi",
        "--max-tokens",
        "4",
        "--threads",
        "1",
        "--temp",
        "0",
        "--draft",
        "ngram",
    )
    done = program(*arguments, "--lookup-static", cache)
    assert done.code == 0
    assert done.err_lines[0].startswith("warning: cache.bin is not a lookup cache")
    assert done.out == program(*arguments).out


def test_an_impossible_grammar_is_told(program: Program, tiny: Path, tmp_path: Path) -> None:
    grammar = tmp_path / "g.gbnf"
    grammar.write_text("root ::= [a-", encoding="utf-8")
    done = program("run", tiny, "hi", "--grammar", grammar)
    assert done.code == 2
    assert done.err_lines[0].startswith("error: the grammar does not parse")


def test_a_real_answer_fills_the_whole_contract(program: Program, tiny: Path) -> None:
    done = program(
        "run",
        tiny,
        "hello",
        "--json",
        "--max-tokens",
        "12",
        "--threads",
        "1",
        "--temp",
        "0",
        "--draft",
        "ngram",
    )
    answer = json.loads(done.out)
    assert done.code == 0
    assert answer["usage"]["completion_tokens"] == len(answer["tokens"]) <= 12
    assert answer["usage"]["prompt_tokens"] > 0
    speculation = answer["speculation"]
    assert speculation["method"] == "ngram"
    # The first token comes out of the prompt's pass; all others out of rounds.
    assert speculation["rounds"] + speculation["accepted"] == len(answer["tokens"]) - 1


def test_a_static_cache_is_built_from_text_and_used(
    program: Program, tiny: Path, tmp_path: Path
) -> None:
    corpus, cache = tmp_path / "corpus.txt", tmp_path / "static.bin"
    text(corpus)
    built = program("cache", "build", corpus, "--model", tiny, "-o", cache, "--json")
    facts = json.loads(built.out)
    assert (built.code, facts["path"]) == (0, str(cache))
    assert facts["ngrams"] > 10
    done = program(
        "run", tiny, "hi", "--lookup-static", cache, "--max-tokens", "4", "--threads", "1"
    )
    assert (done.code, done.err) == (0, "")
    other = write_tiny(tmp_path / "other.gguf", "llama", n_vocab=300)
    done = program(
        "run", other, "hi", "--lookup-static", cache, "--max-tokens", "4", "--threads", "1"
    )
    assert done.code == 0
    assert done.err_lines[0].startswith("warning: static.bin was made with the vocabulary")


def test_a_draft_that_does_not_match_is_code_5_and_names_both_sizes(
    program: Program, tiny: Path, tmp_path: Path
) -> None:
    other = write_tiny(tmp_path / "other.gguf", "llama", n_vocab=600)
    done = program("run", tiny, "hi", "--draft", other, "--max-tokens", "4", "--threads", "1")
    assert (done.code, done.out) == (5, "")
    assert "600" in done.err_lines[0]
    assert "320" in done.err_lines[0]


def test_a_draft_model_by_path_drafts_and_changes_nothing(
    program: Program, tiny: Path, tmp_path: Path
) -> None:
    draft = write_tiny(tmp_path / "draft.gguf", "llama", noise=0.02)
    arguments = ("run", tiny, "hi", "--temp", "0", "--max-tokens", "24", "--threads", "1")
    drafted = json.loads(program(*arguments, "--draft", draft, "--p-min", "0", "--json").out)
    plain = json.loads(program(*arguments, "--draft", "none", "--json").out)
    assert drafted["tokens"] == plain["tokens"]
    assert drafted["speculation"]["by_drafter"]["model"]["drafted"] > 0
    assert drafted["speculation"]["accepted"] > 0
    assert plain["speculation"]["drafted"] == 0
