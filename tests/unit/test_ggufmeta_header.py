"""The header reader against the writer of the `gguf` package, and against broken files."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import pytest

from localspec.errors import BadModelFile
from localspec.ggufmeta.ggml_types import GGML_TYPES
from localspec.ggufmeta.header import parse_header, read_header, split_name
from localspec.ggufmeta.runnable import check_runnable
from localspec.ggufmeta.source import BytesSource, RangeSource
from localspec.ggufmeta.values import Array
from tests.support.ghosts import write_ghost_of
from tests.support.tiny_gguf import (
    FAMILIES,
    vocabulary,
    write_embedding_only,
    write_tiny,
    write_unknown_architecture,
    write_vocab_only,
)


def header_bytes(tensors: int = 0, keys: int = 0, version: int = 3, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize("family", FAMILIES)
def test_reads_what_gguf_reads(family: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", family)
    ours, theirs = read_header(path), gguf.GGUFReader(str(path))
    assert ours.architecture == theirs.fields["general.architecture"].contents()
    assert [t.name for t in ours.tensors] == [t.name for t in theirs.tensors]
    assert [t.nbytes for t in ours.tensors] == [int(t.n_bytes) for t in theirs.tensors]
    assert ours.parts[0].header_size == int(theirs.data_offset)
    tokens = ours.metadata["tokenizer.ggml.tokens"]
    assert [t.decode() for t in tokens.strings()] == theirs.fields[
        "tokenizer.ggml.tokens"
    ].contents()
    types = ours.metadata["tokenizer.ggml.token_type"]
    assert types.numbers() == theirs.fields["tokenizer.ggml.token_type"].contents()


def test_type_table_is_that_of_gguf() -> None:
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        ours = GGML_TYPES[int(kind)]
        assert (ours.block, ours.size) == (block, size), kind
        assert ours.name.lower() == kind.name.lower()


def test_range_source_asks_for_little_more_than_the_header(tmp_path: Path) -> None:
    path = write_ghost_of("deepseek-r1-distill-qwen-7b", tmp_path / "g.gguf")
    asked: list[tuple[int, int]] = []

    def fetch(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    size = path.stat().st_size
    header = parse_header(RangeSource("remote", size, fetch, chunk=256 * 1024))
    assert header.architecture == "qwen2"
    assert len(header.tensors) == len(read_header(path).tensors)
    assert sum(length for _, length in asked) < header.parts[0].header_size + 3 * 1024 * 1024
    assert len(asked) < 12


def test_split_model_is_read_as_one(tmp_path: Path) -> None:
    whole = write_tiny(tmp_path / "whole.gguf", "llama")
    names = _split(whole, tmp_path)
    joined, single = read_header(names[0]), read_header(whole)
    assert {t.name: t.nbytes for t in joined.tensors} == {t.name: t.nbytes for t in single.tensors}
    assert len(joined.parts) == 2
    assert {t.part for t in joined.tensors} == {0, 1}


def test_later_part_alone_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    names = _split(write_tiny(tmp_path / "whole.gguf", "llama"), tmp_path)
    with pytest.raises(BadModelFile) as caught:
        read_header(names[1])
    assert names[0].name in caught.value.hint


def test_missing_part_is_named(tmp_path: Path) -> None:
    names = _split(write_tiny(tmp_path / "whole.gguf", "llama"), tmp_path)
    names[1].unlink()
    with pytest.raises(BadModelFile, match="00002-of-00002"):
        read_header(names[0])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello, I am a text\n", "not a GGUF file"),
        (b"<!DOCTYPE html><html>", "not a GGUF file"),
        (b"GG", "not a GGUF file"),
        (b"GGUF", "ends inside its header"),
        (header_bytes(version=1), "version 1"),
        (header_bytes(version=99), "version 99"),
        (header_bytes(tensors=1 << 60), "1152921504606846976 tensors"),
        (header_bytes(keys=1 << 60), "1152921504606846976 metadata keys"),
        (header_bytes(keys=1, rest=struct.pack("<Q", 1 << 50) + b"x" * 40), "string of"),
        (
            header_bytes(keys=1, rest=string("k") + struct.pack("<IIQ", 9, 8, 1 << 40) + b"x" * 40),
            "1099511627776 elements",
        ),
        (header_bytes(keys=1, rest=string("k") + struct.pack("<I", 77) + b"x" * 40), "type 77"),
        (
            header_bytes(keys=1, rest=string("k") + struct.pack("<IIQ", 9, 9, 1) + b"x" * 40),
            "array of unknown type 9",
        ),
        (
            header_bytes(keys=2, rest=(string("k") + struct.pack("<IB", 0, 1)) * 2 + b"x" * 40),
            "twice",
        ),
        (
            header_bytes(
                tensors=1, rest=string("t") + struct.pack("<IQIQ", 1, 5, 99, 0) + b"x" * 40
            ),
            "type 99",
        ),
        (
            header_bytes(
                tensors=1,
                rest=string("t") + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0) + b"x" * 40,
            ),
            "impossible shape",
        ),
        (
            header_bytes(
                tensors=1, rest=string("t") + struct.pack("<IQIQ", 1, 8, 0, 64) + b"x" * 40
            ),
            "at 64, expected 0",
        ),
        (
            header_bytes(tensors=1, rest=string("t") + struct.pack("<I", 9) + b"x" * 40),
            "9 dimensions",
        ),
    ],
)
def test_broken_file_is_one_clear_line(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(BadModelFile) as caught:
        read_header(path)
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert "broken.gguf" in caught.value.message


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match="there is no file"):
        read_header(tmp_path / "nothing.gguf")
    with pytest.raises(BadModelFile, match="is a folder"):
        read_header(tmp_path)


def test_truncated_tensors_tell_both_sizes(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "llama")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 100)
    with pytest.raises(BadModelFile) as caught:
        read_header(path)
    assert caught.value.fields["size"] == size - 100
    assert caught.value.fields["required"] <= size


def test_huge_sparse_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.gguf"
    path.write_bytes(header_bytes(keys=1, rest=string("k") + struct.pack("<IIQ", 9, 0, 1 << 34)))
    with path.open("r+b") as file:
        file.truncate(1 << 35)
    with pytest.raises(BadModelFile, match="elements"):
        read_header(path)


def test_endless_empty_strings_are_not_walked() -> None:
    """Two arrays of a million empty strings each: small on disk, long to walk."""
    array = struct.pack("<IIQ", 9, 8, 1 << 20) + bytes(8 << 20)
    data = header_bytes(keys=2, rest=string("a") + array + string("b") + array)
    with pytest.raises(BadModelFile, match="'b' claims 1048576 elements"):
        parse_header(BytesSource(data, "hostile"))


def test_what_cannot_generate_is_refused(tmp_path: Path) -> None:
    for path, says in (
        (write_embedding_only(tmp_path / "e.gguf"), "embedding model"),
        (write_vocab_only(tmp_path / "v.gguf"), "no weights"),
        (write_unknown_architecture(tmp_path / "u.gguf"), "'quux9'"),
    ):
        with pytest.raises(BadModelFile, match=says):
            check_runnable(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_can_generate_is_let_through(family: str, tmp_path: Path) -> None:
    info = check_runnable(write_tiny(tmp_path / "a.gguf", family, n_ctx_train=96))
    assert (info.n_vocab, info.n_ctx_train) == (320, 96)
    assert info.size == (tmp_path / "a.gguf").stat().st_size


def test_strings_across_chunks_are_all_found() -> None:
    tokens = [f"token {i} " + "x" * (i % 50) for i in range(5000)]
    rest = string("k") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(string, tokens))
    data = header_bytes(keys=1, rest=rest)
    source = RangeSource("s", len(data), lambda at, n: data[at : at + n], chunk=100)
    found = parse_header(source).metadata["k"]
    assert isinstance(found, Array)
    assert [t.decode() for t in found.strings()] == tokens


def test_header_alone_is_enough_when_the_size_is_known(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "gqa")
    whole = read_header(path)
    data = path.read_bytes()[: whole.parts[0].header_size]
    again = parse_header(BytesSource(data, "head", path.stat().st_size))
    assert again.tensors == whole.tensors


def test_tokens_of_the_tiny_vocabulary_arrive_as_bytes(tmp_path: Path) -> None:
    header = read_header(write_tiny(tmp_path / "a.gguf", "llama"))
    tokens, _, _ = vocabulary(320)
    assert header.metadata["tokenizer.ggml.tokens"].strings() == [t.encode() for t in tokens]


def _split(whole: Path, folder: Path) -> list[Path]:
    """Two files as `llama-gguf-split` makes them: metadata in the first, tensors in both."""
    reader = gguf.GGUFReader(str(whole))
    arch = reader.fields["general.architecture"].contents()
    names = [folder / split_name("m-00001-of-00002.gguf", number) for number in (1, 2)]
    half = len(reader.tensors) // 2
    for number, tensors in enumerate((reader.tensors[:half], reader.tensors[half:])):
        writer = gguf.GGUFWriter(str(names[number]), arch)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return names
