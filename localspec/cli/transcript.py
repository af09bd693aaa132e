"""An answer on its way to the terminal: as it comes, thinking apart, draft tokens in colour."""

from __future__ import annotations

from localspec.cli.output import Output
from localspec.events import TextDelta

DRAFTED_STYLE = "green"


class AnswerPrinter:
    """Writes one answer. Thinking goes to stderr, dimmed; the answer to stdout.

    color_drafts: show text that a drafter proposed and the target accepted in another colour.
    """

    def __init__(self, output: Output, *, color_drafts: bool = False) -> None:
        self._output = output
        self._color_drafts = color_drafts

    def show(self, delta: TextDelta) -> None:
        for span in delta.spans:
            if span.thinking:
                self._output.aside(span.text)
            elif span.drafted and self._color_drafts:
                self._output.write(self._output.style(span.text, DRAFTED_STYLE))
            else:
                self._output.write(span.text)

    def finish(self) -> None:
        """The answer is over: close the line it left open."""
        self._output.end_aside()
        self._output.end_line()
