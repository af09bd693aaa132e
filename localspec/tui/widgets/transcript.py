"""A virtual transcript: lines are made once for each entry, and only visible ones are drawn.

A conversation of any length costs the same for each frame. When the width or the colours change,
what is visible is rendered at once and the rest in small slices between key presses.
"""

from __future__ import annotations

from bisect import bisect_right
from time import perf_counter

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from localspec.tui.theme import Look
from localspec.tui.widgets.entries import Drawing, Entry, Thought

_SLICE_S = 0.008
"""Rendering of what is not visible stops after this long and goes on in the next slice."""
_SLICE_EVERY_S = 0.03
_MARGIN = 2
"""Cells left and right of the text."""
_KEPT_LINES = 600
"""Finished lines that are kept: several screens, so that scrolling one line draws one line."""


class Transcript(ScrollView, can_focus=True):
    """Entries from top to bottom. Follows the end while the user has not scrolled away from it."""

    DEFAULT_CSS = """
    Transcript { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """

    class FoldClicked(Message):
        """A thinking line was clicked."""

        def __init__(self, thought: Thought) -> None:
            super().__init__()
            self.thought = thought

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._look = look
        self._tint = True
        self._entries: list[Entry] = []
        self._strips: list[list[Strip]] = []
        self._starts: list[int] = []
        self._height = 0
        self._drawn: dict[int, Strip] = {}
        """Lines as they go to the screen, by their number."""
        self._ground = Style()
        self._stale: list[int] = []
        self._width = 0
        self._is_following = True

    @property
    def entries(self) -> list[Entry]:
        """Not to be changed from outside."""
        return self._entries

    def lines(self) -> list[list[Strip]]:
        """The lines of each entry; of one that is not rendered yet, one empty line."""
        return self._strips

    @property
    def has_tint(self) -> bool:
        return self._tint

    def on_mount(self) -> None:
        # Awake only while something waits to be rendered.
        self._slices = self.set_interval(_SLICE_EVERY_S, self._work, name="slices", pause=True)

    def show_look(self, look: Look, *, tint: bool) -> None:
        """Draw everything again in other colours."""
        self._look, self._tint = look, tint
        self._make_stale()

    def clear(self) -> None:
        self.replace_from(0, [])

    def replace_from(self, index: int, entries: list[Entry]) -> None:
        """Entries from `index` on are these; the others stay as they are."""
        follow = self._follows()
        del self._entries[index:], self._strips[index:], self._starts[index:]
        self._stale = [i for i in self._stale if i < index]
        first = self._height = self._end(index - 1) if index else 0
        # A long conversation that is opened is rendered in slices, its end first.
        long = len(entries) > 60
        for number, entry in enumerate(entries):
            self._entries.append(entry)
            is_late = long and number < len(entries) - 40
            if is_late:
                self._stale.append(len(self._entries) - 1)
            self._strips.append([Strip.blank(1)] if is_late else self._render_entry(entry))
            self._starts.append(self._height)
            self._height += len(self._strips[-1])
        self._settle(follow, first)
        if self._stale:
            self._slices.resume()

    def append(self, *entries: Entry) -> None:
        self.replace_from(len(self._entries), list(entries))

    def refresh_entry(self, entry: Entry) -> None:
        """Its content changed (folded, unfolded)."""
        index = self._entries.index(entry)
        follow = self._follows()
        self._strips[index] = self._render_entry(entry)
        self._layout_from(index)
        self._settle(follow, self._starts[index])

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._is_following = True
        # The scroll bar appears only with the next layout: scrolling must not wait for it.
        self.scroll_end(animate=False, immediate=True, force=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        # Asked for once: it walks up the tree of widgets.
        self._ground = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = int(self.scroll_offset.y) + y
        if line >= self._height:
            return Strip.blank(self.size.width, self._ground)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
            return self._finished(self._highlight(self._strip(line), *span), line)
        strip = self._drawn.get(line)
        if strip is None:
            if len(self._drawn) >= _KEPT_LINES:
                self._drawn.clear()
            strip = self._drawn[line] = self._finished(self._strip(line), line)
        return strip

    def _strip(self, line: int) -> Strip:
        index = bisect_right(self._starts, line) - 1
        strips = self._strips[index]
        within = line - self._starts[index]
        return strips[within] if within < len(strips) else Strip.blank(1)

    def _finished(self, strip: Strip, line: int) -> Strip:
        """With its margin, as wide as the widget, on its ground."""
        width = self.size.width
        margin = Strip([Segment(" " * _MARGIN)], _MARGIN)
        whole = Strip.join([margin, strip.apply_offsets(0, line)])
        return whole.adjust_cell_length(width).apply_style(self._ground)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = "\n".join(strip.text.rstrip() for strips in self._strips for strip in strips)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        width = self.size.width
        if width != self._width:
            self._width = width
            self._make_stale()
        elif self._is_following:
            self.follow()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self._is_following = new >= self.max_scroll_y - 1

    def on_click(self, event: events.Click) -> None:
        line = int(self.scroll_offset.y) + event.y
        if 0 <= line < self._height:
            entry = self._entries[bisect_right(self._starts, line) - 1]
            if isinstance(entry, Thought):
                self.post_message(self.FoldClicked(entry))

    def _highlight(self, strip: Strip, start: int, end: int) -> Strip:
        if end == -1:
            end = len(strip.text)
        low, high = strip.index_to_cell_position(start), strip.index_to_cell_position(end)
        parts = strip.divide([low, high, strip.cell_length])
        parts = list(parts)
        if len(parts) < 2:
            return strip
        parts[1] = Strip(
            [
                Segment(
                    s.text, (s.style or Style()) + Style(bgcolor=self._look.selected, bold=True)
                )
                for s in parts[1]
            ]
        )
        return Strip.join(parts)

    def _follows(self) -> bool:
        return self._is_following or self._height <= self.size.height

    def _go_to(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    def _end(self, index: int) -> int:
        return self._starts[index] + len(self._strips[index])

    def _layout_from(self, index: int) -> None:
        height = self._end(index - 1) if index else 0
        for i in range(index, len(self._entries)):
            self._starts[i] = height
            height += len(self._strips[i])
        self._height = height

    def _settle(self, follow: bool, changed: int) -> None:
        """Take the new height over and draw again from line `changed` on."""
        for line in [line for line in self._drawn if line >= changed]:
            del self._drawn[line]
        size = Size(self.size.width, self._height)
        if self.show_vertical_scrollbar == (self._height > self.container_size.height):
            # Neither this widget nor its neighbours change their places: no layout.
            self.set_reactive(Widget.virtual_size, size)
        else:
            self.virtual_size = size
        top = self.scroll_offset.y
        if follow:
            self.follow()
        if self.show_vertical_scrollbar:
            # Now, not with some later layout: the thumb must not lag behind the text.
            thumb = self.vertical_scrollbar
            thumb.window_virtual_size, thumb.window_size = self._height, self.size.height
            thumb.position = int(self.scroll_y)
        shown = changed - int(top)
        if self.scroll_offset.y == top and shown > 0:
            left = self.size.height - shown
            if left > 0:
                self.refresh(Region(0, shown, self.size.width, left))
        else:
            self.refresh()

    def _render_entry(self, entry: Entry) -> list[Strip]:
        width = max(10, (self.size.width or 80) - 2 * _MARGIN)
        drawing = Drawing(width, self._look, self.app.console, self._tint)
        strips = []
        for line in entry.lines(drawing):
            line.end = ""
            # Rich leaves the base style out of a text that has no spans.
            line.stylize_before(line.style)
            strips.append(Strip(line.render(self.app.console), line.cell_len))
        return strips

    def _make_stale(self) -> None:
        """Everything has to be rendered again: what is visible now, the rest by and by."""
        follow = self._follows()
        if not self._entries:
            return
        top = bisect_right(self._starts, int(self.scroll_offset.y)) - 1
        bottom = bisect_right(self._starts, int(self.scroll_offset.y) + self.size.height)
        if follow:
            top, bottom = max(0, len(self._entries) - self.size.height), len(self._entries)
        within = int(self.scroll_offset.y) - self._starts[max(0, top)]
        visible = range(max(0, top), min(bottom, len(self._entries)))
        for index in visible:
            self._strips[index] = self._render_entry(self._entries[index])
        # The end of this list comes first: what is nearest above the visible part.
        self._stale = [
            *range(visible.stop, len(self._entries)),
            *range(visible.start),
        ]
        if self._stale:
            self._slices.resume()
        self._layout_from(0)
        self._settle(follow, 0)
        if not follow:
            self._go_to(self._starts[visible.start] + within)

    def _work(self) -> None:
        """Render some of what is stale, without moving what the user looks at."""
        if not self._stale:
            self._slices.pause()
            return
        follow = self._follows()
        line = int(self.scroll_offset.y)
        top = max(0, bisect_right(self._starts, line) - 1)
        within = line - self._starts[top]
        until = perf_counter() + _SLICE_S
        first = len(self._entries)
        while self._stale and perf_counter() < until:
            index = self._stale.pop()
            self._strips[index] = self._render_entry(self._entries[index])
            first = min(first, index)
        self._layout_from(first)
        self._settle(follow, self._starts[first] if first < len(self._starts) else self._height)
        if not follow:
            self._go_to(self._starts[top] + within)
