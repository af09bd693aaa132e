"""Laws of text streaming: how tokens divide an answer never shows in its text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from localspec.engine.text_stream import TextStream
from localspec.engine.thinking import STYLES, ThinkingSplitter, ThinkingStyle

PIECES = st.lists(st.binary(max_size=5), max_size=30)
TEXT_PIECES = st.lists(st.text("aábc<>|😀\n", max_size=4), max_size=30)
STOPS = st.lists(st.text("abc<á", min_size=1, max_size=4), max_size=4)


def stream(tokens: list[bytes], *args: object, **kwargs: object) -> tuple[str, TextStream]:
    """All text released, and the stream after its end."""
    out = TextStream(*args, **kwargs)  # type: ignore[arg-type]
    text = "".join(span.text for token in tokens for span in out.feed(token, False))
    return text + "".join(span.text for span in out.flush()), out


def cut(text: str, stops: list[str]) -> str:
    """What precedes the stop string that is complete first; the longest of those that tie."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@settings(deadline=None)
@given(PIECES)
@example([b"\xf0\x9f", b"\x98", b"\x80"])
@example([b"\xf0\x9f", b"a", b"\xff", b"\xe2\x82"])
def test_any_division_of_any_bytes_decodes_as_the_whole(tokens: list[bytes]) -> None:
    assert stream(tokens)[0] == b"".join(tokens).decode("utf-8", "replace")


@settings(deadline=None)
@given(st.text(), st.data())
def test_characters_divided_between_tokens_arrive_whole(text: str, data: st.DataObject) -> None:
    raw = text.encode("utf-8", "replace")
    borders = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    tokens = [raw[a:b] for a, b in zip([0, *borders], [*borders, len(raw)], strict=True)]
    assert stream(tokens)[0] == raw.decode()


@settings(deadline=None)
@given(TEXT_PIECES, STOPS)
def test_stop_strings_cut_as_a_search_of_the_whole_text_does(
    pieces: list[str], stops: list[str]
) -> None:
    text, out = stream([piece.encode() for piece in pieces], tuple(stops))
    whole = "".join(pieces)
    assert text == cut(whole, stops)
    assert out.stopped == any(stop in whole for stop in stops)


@settings(deadline=None)
@given(TEXT_PIECES, STOPS)
def test_a_stop_is_told_at_the_token_that_completes_it(pieces: list[str], stops: list[str]) -> None:
    out = TextStream(tuple(stops))
    fed = 0
    for piece in pieces:
        if out.stopped:
            break
        out.feed(piece.encode(), False)
        fed += 1
    needed = next(
        (n for n in range(len(pieces) + 1) if any(s in "".join(pieces[:n]) for s in stops)),
        len(pieces),
    )
    assert fed == needed


@settings(deadline=None)
@given(TEXT_PIECES, STOPS)
def test_only_what_may_become_a_stop_string_is_held_back(
    pieces: list[str], stops: list[str]
) -> None:
    out = TextStream(tuple(stops))
    fed = released = ""
    for piece in pieces:
        fed += piece
        released += "".join(span.text for span in out.feed(piece.encode(), False))
        if out.stopped:
            break
        held = fed[len(released) :]
        assert fed.startswith(released)
        assert not held or any(stop.startswith(held) for stop in stops)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("ab<", max_size=3), st.booleans()), max_size=20), STOPS)
def test_each_character_keeps_the_origin_of_its_token(
    tokens: list[tuple[str, bool]], stops: list[str]
) -> None:
    out = TextStream(tuple(stops))
    spans = [span for text, drafted in tokens for span in out.feed(text.encode(), drafted)]
    spans += out.flush()
    found = [(letter, span.drafted) for span in spans for letter in span.text]
    expected = [(letter, drafted) for text, drafted in tokens for letter in text]
    assert found == expected[: len(found)]


@settings(deadline=None)
@given(
    st.sampled_from(STYLES),
    st.text("a <", max_size=6),
    st.text("b <>/", min_size=1, max_size=12),
    st.data(),
)
def test_thinking_is_divided_the_same_however_tokens_fall(
    style: ThinkingStyle, thought: str, answer: str, data: st.DataObject
) -> None:
    whole = style.start + thought + style.end + "\n\n" + answer
    borders = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=15)))
    pieces = [whole[a:b] for a, b in zip([0, *borders], [*borders, len(whole)], strict=True)]
    _, at_once = stream([whole.encode()], thinking=ThinkingSplitter())
    _, divided = stream([piece.encode() for piece in pieces], thinking=ThinkingSplitter())
    assert (divided.text, divided.thinking) == (at_once.text, at_once.thinking)
    assert divided.text == answer.lstrip()
    assert divided.thinking == thought.strip()
