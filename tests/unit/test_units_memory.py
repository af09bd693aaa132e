"""Sizes of memory that users type."""

from __future__ import annotations

import pytest

from localspec.errors import UsageError
from localspec.units import GIB, parse_memory


@pytest.mark.parametrize("option", ["--vram", "--ram", "--unified"])
@pytest.mark.parametrize("text", ["24", " 24 ", "1.5"])
def test_bare_number_of_memory_is_refused_with_the_unit_that_was_meant(
    option: str, text: str
) -> None:
    with pytest.raises(UsageError, match=option) as caught:
        parse_memory(text, option)
    assert caught.value.hint == f"write {text.strip()}GiB"


@pytest.mark.parametrize("text", ["", "lots", "24 GiBs", "-1GiB", "0GiB"])
def test_what_is_no_memory_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--vram"):
        parse_memory(text, "--vram")


def test_memory_with_a_unit_is_read_as_a_size() -> None:
    assert parse_memory("24GiB", "--vram") == 24 * GIB
    assert parse_memory("24 g", "--vram") == 24 * 10**9
