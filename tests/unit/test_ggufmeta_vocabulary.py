"""Vocabularies: fingerprints, and llama.cpp's rule for pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest

from localspec.errors import BadModelFile, IncompatiblePair
from localspec.ggufmeta.compatibility import check_pair, require_pair
from localspec.ggufmeta.header import Header, read_header
from localspec.ggufmeta.vocabulary import fingerprint, read_vocabulary
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import write_tiny


def model(path: Path, tokens: list[str], **options: Any) -> Header:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(options.get("kind", "gpt2"))
    writer.add_tokenizer_pre(options.get("pre", "gpt-2"))
    writer.add_token_list(tokens)
    if "add_bos" in options:
        writer.add_add_bos_token(options["add_bos"])
    if "add_eos" in options:
        writer.add_add_eos_token(options["add_eos"])
    writer.add_bos_token_id(options.get("bos", 1))
    writer.add_eos_token_id(options.get("eos", 2))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return read_header(path)


TOKENS = [f"t{i}" for i in range(300)]


@pytest.fixture
def target(tmp_path: Path) -> Header:
    return model(tmp_path / "target.gguf", TOKENS)


def difference(target: Header, draft: Header) -> str:
    found = check_pair(target, draft).difference
    return "" if found is None else found.what


def test_same_vocabulary_is_identical(target: Header, tmp_path: Path) -> None:
    found = check_pair(target, model(tmp_path / "d.gguf", TOKENS))
    assert found.compatible
    assert found.identical


def test_another_type_is_named_first(target: Header, tmp_path: Path) -> None:
    draft = model(tmp_path / "d.gguf", ["x"] * 5, kind="llama")
    assert difference(target, draft) == "vocabulary type"


def test_bos_counts_only_where_it_is_added(target: Header, tmp_path: Path) -> None:
    assert difference(target, model(tmp_path / "a.gguf", TOKENS, bos=7)) == ""
    added = model(tmp_path / "b.gguf", TOKENS, add_bos=True, bos=1)
    assert difference(target, added) == "BOS"
    assert difference(added, model(tmp_path / "c.gguf", TOKENS, add_bos=True, bos=7)) == "BOS"


def test_eos_counts_only_where_it_is_added(target: Header, tmp_path: Path) -> None:
    assert difference(target, model(tmp_path / "a.gguf", TOKENS, eos=7)) == ""
    assert difference(target, model(tmp_path / "b.gguf", TOKENS, add_eos=True)) == "EOS"


@pytest.mark.parametrize(("extra", "compatible"), [(0, True), (128, True), (129, False)])
def test_sizes_may_differ_by_128(extra: int, compatible: bool, tmp_path: Path) -> None:
    target = model(tmp_path / "t.gguf", TOKENS)
    draft = model(tmp_path / "d.gguf", TOKENS + [f"pad{i}" for i in range(extra)])
    assert check_pair(target, draft).compatible is compatible
    assert check_pair(draft, target).compatible is compatible


def test_texts_count_from_id_five_on(target: Header, tmp_path: Path) -> None:
    early = [*(f"other{i}" for i in range(5)), *TOKENS[5:]]
    assert difference(target, model(tmp_path / "a.gguf", early)) == ""
    late = [*TOKENS[:200], "else", *TOKENS[201:]]
    found = check_pair(target, model(tmp_path / "b.gguf", late)).difference
    assert found is not None
    assert (found.what, found.token_id) == ("token", 200)
    assert (found.target, found.draft) == ("'t200'", "'else'")


def test_real_pairs_that_differ_in_padding_are_compatible(tmp_path: Path) -> None:
    """gemma-3 27B has 64 tokens more than 1B and 270M; other programs refuse the pair."""
    target = read_header(write_ghost_of("gemma-3-27b", tmp_path / "t.gguf"))
    draft = read_header(write_ghost_of("gemma-3-270m", tmp_path / "d.gguf"))
    found = check_pair(target, draft)
    assert found.compatible
    assert not found.identical
    assert (found.target_tokens, found.draft_tokens) == (262208, 262144)


def test_refusal_names_both_values(target: Header, tmp_path: Path) -> None:
    draft = model(tmp_path / "d.gguf", TOKENS[:100])
    with pytest.raises(IncompatiblePair) as caught:
        require_pair(target, draft)
    assert "300 tokens" in caught.value.message
    assert "100 tokens" in caught.value.message
    assert caught.value.exit_code == 5


def test_fingerprint_tells_tokenizers_apart(tmp_path: Path) -> None:
    same = {
        fingerprint(read_header(write_tiny(tmp_path / f"{s}.gguf", "llama", seed=s)))
        for s in (1, 2)
    }
    assert len(same) == 1
    first = model(tmp_path / "a.gguf", TOKENS)
    others = [
        model(tmp_path / "b.gguf", [*TOKENS[:-1], "x"]),
        model(tmp_path / "c.gguf", TOKENS, eos=9),
        model(tmp_path / "d.gguf", TOKENS, pre="qwen2"),
    ]
    assert len({fingerprint(h) for h in (first, *others)}) == 4


def test_llama3_pre_tokenizer_adds_bos_by_itself(tmp_path: Path) -> None:
    assert read_vocabulary(model(tmp_path / "a.gguf", TOKENS, pre="llama-bpe")).add_bos
    assert not read_vocabulary(model(tmp_path / "b.gguf", TOKENS, pre="qwen2")).add_bos


def test_header_without_vocabulary_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "n.gguf"), "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(BadModelFile, match="no vocabulary"):
        read_vocabulary(read_header(tmp_path / "n.gguf"))
