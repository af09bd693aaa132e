"""The tiny models are what the other tests believe them to be."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from tests.support.tiny_gguf import FAMILIES, vocabulary, write_tiny


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_gives_the_same_file(family: str, tmp_path: Path) -> None:
    first = write_tiny(tmp_path / "a.gguf", family, seed=3).read_bytes()
    again = write_tiny(tmp_path / "b.gguf", family, seed=3).read_bytes()
    other = write_tiny(tmp_path / "c.gguf", family, seed=4).read_bytes()
    assert first == again
    assert first != other


def test_options_reach_the_file(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "llama", n_vocab=500, n_ctx_train=96, chat_template=None)
    reader = gguf.GGUFReader(str(path))
    assert reader.fields["llama.context_length"].contents() == 96
    assert len(reader.fields["tokenizer.ggml.tokens"].contents()) == 500
    assert "tokenizer.chat_template" not in reader.fields


def test_every_byte_has_its_token() -> None:
    tokens, types, _ = vocabulary(320)
    assert len(tokens) == len(types) == len(set(tokens)) == 320


def test_vocabulary_below_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="260"):
        vocabulary(200)
