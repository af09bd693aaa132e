"""From the bytes of tokens to the text of an answer: characters, stop strings, thinking."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from localspec.engine.stop_strings import StopStrings
from localspec.engine.text_stream_runs import Run
from localspec.engine.thinking import ThinkingSplitter
from localspec.events import TextSpan


class TextStream:
    """The text of one answer while its tokens arrive.

    A token may end inside a character: its bytes wait for the rest. Bytes that are no UTF-8 become
    U+FFFD, exactly as if the whole answer were decoded at once.

    stop: strings that end the answer; they are not part of it.
    thinking: what tells thinking from answer; None treats everything as answer.
    """

    def __init__(self, stop: Sequence[str] = (), thinking: ThinkingSplitter | None = None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopStrings(stop)
        self._splitter = thinking
        self._answer: list[str] = []
        self._thinking: list[str] = []

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the answer; None while there was none."""
        return self._stops.found

    @property
    def stopped(self) -> bool:
        return self._stops.found is not None

    @property
    def text(self) -> str:
        """The answer released so far, thinking left out."""
        return "".join(self._answer)

    @property
    def thinking(self) -> str:
        """The thinking released so far."""
        return "".join(self._thinking).rstrip()

    def feed(self, data: bytes, drafted: bool) -> tuple[TextSpan, ...]:
        """The text that these bytes make certain. What comes after a stop string counts for
        nothing.

        data: of one token or of several; empty for a token without text.
        """
        if self.stopped:
            return ()
        return self._split(self._stops.feed(self._decoder.decode(data), drafted), last=False)

    def flush(self) -> tuple[TextSpan, ...]:
        """The answer is over: everything that was still held back."""
        runs = self._stops.feed(self._decoder.decode(b"", True), False)
        return self._split([*runs, *self._stops.flush()], last=True)

    def _split(self, runs: Iterable[Run], *, last: bool) -> tuple[TextSpan, ...]:
        if self._splitter is None:
            return self._spans((run, False) for run in runs)
        pieces = [piece for text, drafted in runs for piece in self._splitter.feed(text, drafted)]
        if last or self.stopped:
            pieces += self._splitter.flush()
        return self._spans(pieces)

    def _spans(self, pieces: Iterable[tuple[Run, bool]]) -> tuple[TextSpan, ...]:
        spans: list[TextSpan] = []
        for (text, drafted), thinking in pieces:
            (self._thinking if thinking else self._answer).append(text)
            if spans and (spans[-1].drafted, spans[-1].thinking) == (drafted, thinking):
                text = spans.pop().text + text
            spans.append(TextSpan(text, drafted, thinking))
        return tuple(spans)
