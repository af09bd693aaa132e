"""The line above the transcript: which pair, who drafts, how full the context is, how fast."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from localspec.tui.backend.views import LoadedView
from localspec.tui.figures import Meter
from localspec.tui.theme import Look


class ChatStatus(Widget):
    def __init__(self, look: Look) -> None:
        super().__init__(id="chat-status")
        self.look = look
        self._left = Text()
        self._right = Text()

    def show(self, model: str, loaded: LoadedView | None, method: str, meter: Meter) -> None:
        look = self.look
        left = Text()
        left.append(_short(model) or "no model", f"bold {look.text}" if model else look.muted)
        left.append("   drafter ", look.muted)
        left.append(method, look.accent)
        if loaded is not None and loaded.n_ctx:
            left.append("   ctx ", look.muted)
            left.append(f"{meter.n_ctx_used:,} / {loaded.n_ctx:,}", look.text)
        right = Text()
        if meter.average:
            right.append(f"{meter.average:.1f} tok/s", f"bold {look.text}")
        if meter.gain is not None:
            right.append(f"   {meter.gain:.2f}×", f"bold {look.accent}")
        if left != self._left or right != self._right:
            self._left, self._right = left, right
            self.refresh()

    def show_look(self, look: Look) -> None:
        """Draw again in other colours."""
        self.look = look
        self.refresh()

    def render(self) -> Text:
        width = self.size.width
        right = self._right if self._right.cell_len + 20 < width else Text()
        left = self._left.copy()
        left.truncate(max(0, width - right.cell_len - 2), overflow="ellipsis")
        return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)


def _short(model: str) -> str:
    """A pair's id as it is, a path as its file's name."""
    return model.replace("\\", "/").rsplit("/", 1)[-1] if model.endswith(".gguf") else model
