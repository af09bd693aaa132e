"""The command palette: every action of the screen and of the program, by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from textual.command import DiscoveryHit, Hit, Hits, Provider

from localspec.tui.widgets.help_panel import key_name, named_keys


class ActionProvider(Provider):
    """What the keys of this screen do, found by typing."""

    async def discover(self) -> Hits:
        for title, key, action in self._actions():
            yield DiscoveryHit(title, self._runner(action), help=key)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, key, action in self._actions():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), self._runner(action), help=key)

    def _actions(self) -> Iterator[tuple[str, str, str]]:
        """Title, key, and action with the namespace it runs in."""
        for place, owner in (("screen", self.screen), ("app", self.app)):
            for key, title, action in named_keys(list(owner.BINDINGS)):
                full = action if action.startswith("app.") else f"{place}.{action}"
                yield title, key_name(key), full

    def _runner(self, action: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.app.run_action(action, self.screen)

        return run
