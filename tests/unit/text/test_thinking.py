"""Thinking blocks of the model families."""

from __future__ import annotations

import pytest

from localspec.engine.text_stream import TextStream
from localspec.engine.thinking import STYLES, ThinkingSplitter, ThinkingStyle, opened_by
from localspec.events import TextSpan


def split(text: str, opened: ThinkingStyle | None = None, step: int = 3) -> tuple[str, str]:
    """Thinking and answer, fed `step` characters at a time."""
    stream = TextStream(thinking=ThinkingSplitter(opened))
    for start in range(0, len(text), step):
        stream.feed(text[start : start + step].encode(), False)
    stream.flush()
    return stream.thinking, stream.text


@pytest.mark.parametrize("style", STYLES, ids=[style.start for style in STYLES])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_every_style_is_recognised(style: ThinkingStyle, step: int) -> None:
    text = f"{style.start}\nWhy? Because.\n{style.end}\n\nIt is so."
    assert split(text, step=step) == ("Why? Because.", "It is so.")


@pytest.mark.parametrize("style", STYLES, ids=[style.start for style in STYLES])
def test_a_block_that_the_prompt_opened(style: ThinkingStyle) -> None:
    prompt = f"<|im_start|>assistant\n{style.start}\n"
    assert opened_by(prompt) == style
    assert split(f"Hm.\n{style.end}\n\nYes.", opened_by(prompt)) == ("Hm.", "Yes.")


def test_a_block_that_the_prompt_closed_is_not_open() -> None:
    assert opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n") is None
    assert opened_by("<|im_start|>assistant\n") is None


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_gpt_oss_channels(step: int) -> None:
    text = (
        "<|channel|>analysis<|message|>User asks.<|end|><|start|>assistant<|channel|>analysis"
        "<|message|> More.<|end|><|start|>assistant<|channel|>final<|message|>Here: <|x|> done"
    )
    assert split(text, step=step) == ("User asks.More.", "Here: <|x|> done")


@pytest.mark.parametrize(
    "text",
    [
        "The tag <think> opens </think> a block.",
        "<thimble>",
        "\n\n  indented",
        "<|end|> is a token",
        "Answer <|channel|>final<|message|> literally",
        "<",
        "   ",
        "",
    ],
)
def test_an_answer_about_tags_stays_an_answer(text: str) -> None:
    assert split(text) == ("", text)


def test_unfinished_thinking_is_all_thinking() -> None:
    assert split("<think>I wonder </thi") == ("I wonder </thi", "")


def test_two_blocks_in_a_row() -> None:
    assert split("<think>a</think>\n<think>b</think>c") == ("ab", "c")


def test_spans_say_what_is_thinking_and_what_was_drafted() -> None:
    stream = TextStream(thinking=ThinkingSplitter())
    spans = [
        span
        for text, drafted in [("<think>", False), ("a", True), ("</think>", True), ("b", False)]
        for span in stream.feed(text.encode(), drafted)
    ]
    assert spans == [TextSpan("a", True, True), TextSpan("b", False, False)]


def test_text_is_not_held_back_once_the_answer_has_begun() -> None:
    stream = TextStream(thinking=ThinkingSplitter())
    assert [span.text for span in stream.feed(b"Hello <th", False)] == ["Hello <th"]


def test_a_stop_string_ends_thinking_too() -> None:
    stream = TextStream(("STOP",), ThinkingSplitter())
    for letter in b"<think>ab STOP more":
        stream.feed(bytes([letter]), False)
    stream.flush()
    assert (stream.thinking, stream.text, stream.stop_string) == ("ab", "", "STOP")
