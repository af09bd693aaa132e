"""Text that waits, each piece with the word whether its token came from a drafter."""

from __future__ import annotations

Run = tuple[str, bool]
"""A piece of text, and whether the token that completed it was drafted."""


class Runs:
    """A queue of text pieces that is filled by tokens and emptied by characters."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self.text = ""
        """All of it in one string."""

    def append(self, text: str, drafted: bool) -> None:
        if text:
            self._runs.append((text, drafted))
            self.text += text

    def take(self, count: int) -> list[Run]:
        """Remove the first `count` characters and return them; all there are when fewer."""
        if count >= len(self.text):
            taken, self._runs, self.text = self._runs, [], ""
            return taken
        taken = []
        self.text = self.text[count:]
        while count > 0:
            text, drafted = self._runs[0]
            if len(text) <= count:
                taken.append(self._runs.pop(0))
                count -= len(text)
            else:
                taken.append((text[:count], drafted))
                self._runs[0] = (text[count:], drafted)
                count = 0
        return taken


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """How many characters at the end of `text` may still become one of `markers`."""
    longest = max((len(marker) for marker in markers), default=0)
    for count in range(min(longest - 1, len(text)), 0, -1):
        tail = text[-count:]
        if any(marker.startswith(tail) for marker in markers):
            return count
    return 0
