"""What to measure: methods, workloads, and how much of each."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Label

from localspec.errors import UsageError
from localspec.tui.backend.views import BenchChoice
from localspec.tui.widgets.check_list import CheckList

_METHODS = (
    ("ngram", "n-gram: repetition"),
    ("model", "draft model"),
    ("auto", "auto: what wins, each round"),
)
_FIRST_WORKLOADS = ("chat", "code", "edit", "json")
_NUMBERS = (
    ("prompts", "prompts of each", 2),
    ("max_tokens", "tokens of each answer", 96),
    ("repeats", "repeats", 1),
)


class BenchChoicePanel(VerticalScroll):
    def __init__(self, workloads: tuple[tuple[str, str], ...], *, id: str | None = None) -> None:
        """workloads: name and title of each."""
        super().__init__(id=id)
        self.border_title = "What to measure"
        self._workloads = workloads

    def compose(self) -> ComposeResult:
        yield Label("methods, beside plain", classes="field")
        yield CheckList(_METHODS, {"ngram", "auto"}, id="bench-methods")
        yield Label("workloads", classes="field")
        yield CheckList(self._workloads, set(_FIRST_WORKLOADS), id="bench-workloads")
        for name, title, value in _NUMBERS:
            yield Label(title, classes="field")
            yield Input(str(value), id=f"bench-{name}", compact=True, type="integer")

    def set_draft(self, *, has_draft: bool) -> None:
        """With a draft model in the pair its method is measured too."""
        self.query_one("#bench-methods", CheckList).check("model", on=has_draft)

    def choice(self) -> BenchChoice:
        """Raises UsageError for what cannot be measured."""
        methods = self.query_one("#bench-methods", CheckList).checked
        workloads = self.query_one("#bench-workloads", CheckList).checked
        if not workloads:
            raise UsageError("no workload is chosen", hint="space chooses one")
        numbers = {name: self._number(name, title) for name, title, _ in _NUMBERS}
        return BenchChoice(
            methods=("plain", *methods),
            workloads=workloads,
            **numbers,
        )

    def _number(self, name: str, title: str) -> int:
        text = self.query_one(f"#bench-{name}", Input).value.strip()
        least = 2 if name == "max_tokens" else 1
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"{title}: {text!r} is no number from {least} up")
        return int(text)
