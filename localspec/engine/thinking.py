"""Thinking blocks: the part of an answer in which a model reasons before it answers."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.engine.text_stream_runs import Run, Runs, held_back
from localspec.engine.tools_as_text import TOOL_MARKERS


@dataclass(frozen=True, slots=True)
class ThinkingStyle:
    """How one family of models marks its thinking."""

    start: str
    end: str


STYLES = (
    ThinkingStyle("<think>", "</think>"),  # DeepSeek, Qwen, GLM, SmolLM3, MiniMax and most others
    ThinkingStyle("<thinking>", "</thinking>"),
    ThinkingStyle("<thought>", "</thought>"),
    ThinkingStyle("<seed:think>", "</seed:think>"),  # Seed-OSS
    ThinkingStyle("<think:opensource>", "</think:opensource>"),  # Hunyuan
    ThinkingStyle("[THINK]", "[/THINK]"),  # Magistral, Ministral
    ThinkingStyle("<|START_THINKING|>", "<|END_THINKING|>"),  # Command R
    ThinkingStyle("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ThinkingStyle("<|channel>thought\n", "<channel|>"),  # Gemma 4
    ThinkingStyle("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),  # Apriel
)

_CHANNEL = ThinkingStyle("<|channel|>analysis<|message|>", "<|end|>")
"""gpt-oss: the answer is a series of messages on channels, each with a header."""
_HEADERS = (
    "<|start|>assistant",
    "<|channel|>final<|message|>",
    "<|channel|>commentary<|message|>",
)
"""gpt-oss: headers of what is not thinking; no part of the answer."""

MARKER_TOKENS = frozenset(
    {style.start.strip() for style in STYLES}
    | {style.end for style in STYLES}
    | {"<|channel>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>"}
    | TOOL_MARKERS
)
"""Texts of control tokens that must be written out for blocks and tool calls to be recognised."""

_OPENERS = tuple(style.start for style in (*STYLES, _CHANNEL)) + _HEADERS
_ENDS = {style.start: style.end for style in (*STYLES, _CHANNEL)}


def opened_by(prompt: str) -> ThinkingStyle | None:
    """The style whose block the prompt leaves open, as templates do that force thinking."""
    end = prompt.rstrip()
    return next((style for style in STYLES if end.endswith(style.start.rstrip())), None)


class ThinkingSplitter:
    """Divides a stream into thinking and answer, and drops the markers.

    A block is recognised where an answer begins and right after another block, nowhere else: an
    answer may well be about the `<think>` tag. Blanks around the markers are dropped with them.

    opened: the style of a block that the prompt left open (`opened_by`).
    """

    def __init__(self, opened: ThinkingStyle | None = None) -> None:
        self._waiting = Runs()
        self._end = opened.end if opened else ""
        """What ends the present block; empty outside of one."""
        self._at_border = opened is None
        """Whether a marker may come next: nothing but blanks since the last, or since the start."""
        self._skip_blanks = opened is not None
        self._channels = False
        """Whether the answer comes in messages with headers (gpt-oss)."""

    def feed(self, text: str, drafted: bool) -> list[tuple[Run, bool]]:
        """Pieces that are decided, each with whether it is thinking."""
        if not self._at_border and not self._end and not self._channels and not self._skip_blanks:
            return [((text, drafted), False)] if text else []
        self._waiting.append(text, drafted)
        pieces: list[tuple[Run, bool]] = []
        while self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[tuple[Run, bool]]:
        """What was held back and became no marker."""
        thinking = bool(self._end)
        return [(run, thinking) for run in self._waiting.take(len(self._waiting.text))]

    def _step(self, pieces: list[tuple[Run, bool]]) -> bool:
        """Decide about the front of what waits; False when more text is needed."""
        if self._skip_blanks:
            text = self._waiting.text
            self._waiting.take(len(text) - len(text.lstrip()))
            if not self._waiting.text:
                return False
            self._skip_blanks = False
        if self._at_border:
            return self._decide_at_border()
        if self._end:
            return self._until(pieces, (self._end,), thinking=True)
        if self._channels:
            return self._until(pieces, ("<|end|>", "<|start|>assistant"), thinking=False)
        self._release(pieces, len(self._waiting.text), thinking=False)
        return False

    def _decide_at_border(self) -> bool:
        text = self._waiting.text
        visible = text.lstrip()
        blanks = len(text) - len(visible)
        # The end of a start marker may be a line break: compare what there is of both.
        opener = next((o for o in _OPENERS if visible.startswith(o)), None)
        if opener is not None:
            self._waiting.take(blanks + len(opener))
            self._channels = self._channels or opener in _HEADERS or opener == _CHANNEL.start
            self._end = _ENDS.get(opener, "")
            self._at_border = opener == "<|start|>assistant"
            self._skip_blanks = True
            return True
        if any(o.startswith(visible) for o in _OPENERS):
            return False
        self._at_border = False
        return True

    def _until(
        self, pieces: list[tuple[Run, bool]], markers: tuple[str, ...], *, thinking: bool
    ) -> bool:
        """Release text up to the first of `markers`, which opens a border."""
        text = self._waiting.text
        hits = [(text.find(marker), marker) for marker in markers if marker in text]
        if not hits:
            self._release(pieces, len(text) - held_back(text, markers), thinking)
            return False
        start, marker = min(hits)
        self._release(pieces, start, thinking)
        self._waiting.take(len(marker))
        self._end, self._at_border, self._skip_blanks = "", True, True
        return True

    def _release(self, pieces: list[tuple[Run, bool]], count: int, thinking: bool) -> None:
        if count > 0:
            pieces += [(run, thinking) for run in self._waiting.take(count)]
