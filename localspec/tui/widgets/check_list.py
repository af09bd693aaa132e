"""A list of things to choose from, each with a box that shows its state in a character."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option


class CheckList(OptionList):
    """Space or Enter turns the box under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", "Choose", show=False)]

    def __init__(
        self, items: tuple[tuple[str, str], ...], checked: set[str], *, id: str | None = None
    ) -> None:
        """items: name and title of each, in order."""
        super().__init__(id=id, compact=True)
        self._items = items
        self._checked = checked & {name for name, _ in items}
        for name, title in items:
            self.add_option(Option(self._prompt(name, title), id=name))

    def on_focus(self) -> None:
        if self.highlighted is None and self.option_count:
            self.highlighted = 0

    @property
    def checked(self) -> tuple[str, ...]:
        """Names of what is chosen, in the order of the list."""
        return tuple(name for name, _ in self._items if name in self._checked)

    def check(self, name: str, *, on: bool) -> None:
        """Choose one, or not."""
        if on:
            self._checked.add(name)
        else:
            self._checked.discard(name)
        title = dict(self._items)[name]
        self.replace_option_prompt(name, self._prompt(name, title))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.check(event.option_id, on=event.option_id not in self._checked)

    def _prompt(self, name: str, title: str) -> str:
        # Brackets would be markup.
        return f"{'■' if name in self._checked else '□'} {title}"
