"""Turns of a conversation as entries of a transcript; the running answer grows at its end."""

from __future__ import annotations

from localspec.chats.conversation import Turn
from localspec.chats.export import figures_line
from localspec.events import TextSpan
from localspec.tui.markdown.blocks import BlockStream, blocks_of
from localspec.tui.widgets.entries import Answered, Entry, Remark, Said, Speaker, Thought
from localspec.tui.widgets.transcript import Transcript


def entries_of(index: int, turn: Turn, name: str) -> list[Entry]:
    """Everything that shows one finished turn.

    name: who answered, for people.
    """
    if turn.role == "user":
        return [Speaker(index, "You", is_user=True), Said(index, turn.content)]
    speaker = Speaker(index, name, is_user=False)
    speaker.has_drafted = bool(turn.drafted)
    entries: list[Entry] = [speaker]
    if turn.thinking.strip():
        entries.append(Thought(index, turn.thinking, turn.figures.get("thinking_seconds")))
    for number, block in enumerate(blocks_of(turn.content, turn.drafted)):
        entries.append(Answered(index, block, opens=number == 0))
    if line := figures_line(turn.figures):
        entries.append(Remark(index, line))
    return entries


class RunningAnswer:
    """An answer that is being written; a call of `flush` shows what came since the last."""

    def __init__(self, transcript: Transcript, turn: int, name: str) -> None:
        self._transcript = transcript
        self._turn = turn
        self._stream = BlockStream()
        self._thought: Thought | None = None
        self._thoughts: list[str] = []
        self._shown = 0
        self._pending: list[TextSpan] = []
        self._speaker = Speaker(turn, name, is_user=False)
        transcript.append(self._speaker)
        self._first = len(transcript.entries)
        """Index of the first entry of the answer's own text."""

    @property
    def text(self) -> str:
        self.flush()
        return self._stream.text

    @property
    def thinking(self) -> str:
        return "".join(self._thoughts)

    @property
    def drafted(self) -> tuple[tuple[int, int], ...]:
        return self._stream.drafted

    @property
    def is_empty(self) -> bool:
        return not self._pending and not self._stream.text and self._thought is None

    def add(self, spans: tuple[TextSpan, ...]) -> None:
        """Keep new text for the next `flush`; cheap."""
        self._pending.extend(spans)

    def flush(self) -> None:
        """Show what was added: closed blocks once, the open one again."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        for span in pending:
            if span.thinking:
                self._think(span.text)
            else:
                # Templates leave blank lines between the thinking and the answer.
                text = span.text if self._stream.text else span.text.lstrip("\n")
                self._stream.append(text, drafted=span.drafted)
                if span.drafted and not self._speaker.has_drafted:
                    self._speaker.has_drafted = True
                    self._transcript.refresh_entry(self._speaker)
        self._show_thought()
        self._show_blocks()

    def end_thinking(self, seconds: float | None) -> None:
        if self._thought is not None and self._thought.is_running:
            self._thought.is_running = False
            self._thought.seconds = seconds
            self._transcript.refresh_entry(self._thought)

    def finish(self, remark: str) -> None:
        self.flush()
        if remark:
            self._transcript.append(Remark(self._turn, remark))

    def _think(self, text: str) -> None:
        self._thoughts.append(text)
        if self._thought is None:
            self._thought = Thought(self._turn)
            self._thought.is_running = True
            self._transcript.append(self._thought)
            self._first += 1

    def _show_thought(self) -> None:
        thought = self._thought
        if thought is not None and thought.is_running:
            thought.text = self.thinking
            if not thought.folded:
                self._transcript.refresh_entry(thought)

    def _show_blocks(self) -> None:
        closed, rest = self._stream.closed, self._stream.open
        fresh = closed[self._shown :] + ([rest] if rest is not None else [])
        if not fresh:
            return
        start = self._shown
        entries: list[Entry] = [
            Answered(self._turn, block, opens=start + number == 0)
            for number, block in enumerate(fresh)
        ]
        self._transcript.replace_from(self._first + start, entries)
        self._shown = len(closed)
