"""Markdown that grows: the same whatever the pieces, never too wide, tinted where it is due."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from localspec.tui.markdown.blocks import CODE_PIECE, LIST_PIECE, Block, BlockStream, blocks_of
from localspec.tui.markdown.render import render
from localspec.tui.theme import DARK
from tests.support.fake_backend import ANSWER

CONSOLE = Console(width=200, color_system="truecolor", force_terminal=True)
LINES = st.sampled_from(
    [
        "",
        " ",
        "# title",
        "word " * 30,
        "- item",
        "  - inner",
        "1. one",
        "> quote",
        "```python",
        "```",
        "~~~",
        "    code",
        "| a | b |",
        "|---|--:|",
        "| 1 | 2 |",
        "*em* **bold** `code`",
        "[link](http://a.b)",
        "&amp; <b>",
        "---",
        "日本語の文章",
        "\ttab",
        "x" * 90,
        "\\*",
        "![i](u)",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_blocks_do_not_depend_on_how_the_text_arrives(text: str, cuts: list[int]) -> None:
    stream = BlockStream()
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    for start, end in pairwise(places):
        stream.append(text[start:end])
        assert stream.open is None or isinstance(stream.open, Block)
    rest = stream.open
    found = [*stream.closed, rest] if rest is not None else stream.closed
    assert found == blocks_of(text)
    assert stream.text == text


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_no_word_is_lost_between_blocks(text: str) -> None:
    joined = "\n".join(block.source for block in blocks_of(text))
    for line in text.splitlines():
        if line.strip() and not line.strip().startswith(("```", "~~~")):
            assert line.strip() in joined


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(1, 120), st.booleans())
def test_no_line_is_wider_than_asked(text: str, width: int, tint: bool) -> None:
    drafted = ((0, len(text) // 2),) if len(text) > 1 else ()
    for block in blocks_of(text, drafted):
        for line in render(block, width, DARK, CONSOLE, tint=tint):
            assert line.cell_len <= max(8, width) or "─" in line.plain or "  " in line.plain
            assert "\n" not in line.plain


def test_closed_blocks_never_change_while_the_text_grows() -> None:
    stream = BlockStream()
    seen: list[Block] = []
    for character in ANSWER * 2:
        stream.append(character)
        assert stream.closed[: len(seen)] == seen
        seen = list(stream.closed)
    assert len(seen) > 6


def test_the_open_part_stays_short_in_long_code_and_long_lists() -> None:
    code = BlockStream()
    code.append("```python\n")
    longest = 0
    for number in range(500):
        code.append(f"x = {number}\n")
        assert code.open is None or code.open.source.count("\n") <= CODE_PIECE
    items = BlockStream()
    for number in range(300):
        items.append(f"{number + 1}. item\n")
        longest = max(longest, items.open.source.count("\n") if items.open else 0)
    assert longest <= LIST_PIECE + 1
    numbers = [_plain(block) for block in items.closed]
    assert numbers[1].strip().startswith("25.")


def test_pieces_of_one_code_block_have_one_label_and_no_gap() -> None:
    source = "```python\n" + "x = 1\n" * 100 + "```\n"
    blocks = blocks_of(source)
    assert [block.first for block in blocks] == [True, False, False]
    assert "".join(_plain(block) for block in blocks).count("python") == 1


def test_drafted_text_is_tinted_and_markup_and_indentation_are_not() -> None:
    text = "plain **drafted** plain"
    start = text.index("**drafted**")
    (block,) = blocks_of(text, ((start, start + len("**drafted**")),))
    (line,) = render(block, 80, DARK, CONSOLE, tint=True)
    assert _tinted(line) == "drafted"
    (untinted,) = render(block, 80, DARK, CONSOLE, tint=False)
    assert _tinted(untinted) == ""
    code = blocks_of("```\n    indented\n```", ((0, 20),))[0]
    line = render(code, 40, DARK, CONSOLE, tint=True)[0]
    assert _tinted(line).strip() == _tinted(line) == "indented"


def test_html_in_an_answer_is_text() -> None:
    (block,) = blocks_of("<script>alert(1)</script>")
    assert "alert(1)" in _plain(block)


def _plain(block: Block) -> str:
    return "\n".join(line.plain for line in render(block, 100, DARK, CONSOLE, tint=False))


def _tinted(line: Text) -> str:
    found = ""
    for span in line.spans:
        style = CONSOLE.get_style(span.style)
        if style.bgcolor is not None and style.bgcolor.name == DARK.drafted:
            found += line.plain[span.start : span.end]
    return found
