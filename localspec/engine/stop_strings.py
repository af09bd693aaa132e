"""Stop strings in a stream: found across token borders, holding back only what may become one."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.engine.text_stream_runs import Run, Runs, held_back


class StopStrings:
    """Cuts a stream before the first stop string.

    The first is the one that is complete first; of several that end at the same character, the
    longest. So the result depends on the text alone, not on how tokens divide it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._waiting = Runs()
        self.found: str | None = None
        """The stop string that ended the text."""

    def feed(self, text: str, drafted: bool) -> list[Run]:
        """Text that can no longer belong to a stop string; nothing once one was found."""
        if self.found is not None:
            return []
        if not self._stops:
            return [(text, drafted)] if text else []
        self._waiting.append(text, drafted)
        waiting = self._waiting.text
        hits = [
            (start + len(stop), start, stop)
            for stop in self._stops
            if (start := waiting.find(stop)) >= 0
        ]
        if hits:
            _, start, self.found = min(hits)
            return self._waiting.take(start)
        return self._waiting.take(len(waiting) - held_back(waiting, self._stops))

    def flush(self) -> list[Run]:
        """What was held back and became no stop string."""
        if self.found is not None:
            return []
        return self._waiting.take(len(self._waiting.text))
