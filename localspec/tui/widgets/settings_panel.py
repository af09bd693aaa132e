"""Settings of the chat, in a panel beside it: system prompt and sampling."""

from __future__ import annotations

from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, Label, TextArea

from localspec.tui.backend.views import ChatSettings

_FIELDS: tuple[tuple[str, str, str, float, float], ...] = (
    ("temp", "temperature", "0 always takes the most probable token", 0.0, 100.0),
    ("top_k", "top-k", "keep the N most probable; 0 keeps all", 0, 2**31 - 1),
    ("top_p", "top-p", "keep the most probable that make up P; 1 is off", 0.0, 1.0),
    ("min_p", "min-p", "drop what is below P times the most probable", 0.0, 1.0),
    ("repeat_penalty", "repeat penalty", "1 is off", 0.01, 100.0),
    ("seed", "seed", "empty draws a new one for each answer", 0, 2**32 - 1),
    ("max_tokens", "max tokens", "empty: until the model ends", 1, 2**31 - 1),
    ("draft_max", "draft max", "most draft tokens in a round; empty: the pair's", 1, 64),
)
_WHOLE = ("top_k", "seed", "max_tokens", "draft_max")
_OPTIONAL = ("seed", "max_tokens", "draft_max")


class SettingsPanel(VerticalScroll):
    """Says `Changed` with each valid change; a wrong value stays and is explained beside it."""

    class Changed(Message):
        def __init__(self, settings: ChatSettings) -> None:
            super().__init__()
            self.settings = settings

    def __init__(self, settings: ChatSettings, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "Settings"
        self.border_subtitle = "F2 closes"
        self.settings = settings

    def compose(self) -> ComposeResult:
        yield Label("system prompt", classes="field")
        area = TextArea(
            self.settings.system,
            id="set-system",
            compact=True,
            tab_behavior="focus",
            placeholder="none",
        )
        yield area
        for name, title, hint, _, _ in _FIELDS:
            yield Label(title, classes="field")
            value = getattr(self.settings, name)
            yield Input(
                "" if value is None else f"{value:g}" if isinstance(value, float) else str(value),
                id=f"set-{name}",
                placeholder="none" if name in _OPTIONAL else "",
                compact=True,
            )
            yield Label(hint, classes="hint", id=f"hint-{name}")

    def show(self, settings: ChatSettings) -> None:
        """Take over settings that changed elsewhere."""
        self.settings = settings
        area = self.query_one("#set-system", TextArea)
        if area.text != settings.system:
            area.text = settings.system

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if event.text_area.text != self.settings.system:
            self._change(system=event.text_area.text)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        name = (event.input.id or "").removeprefix("set-")
        field = next((field for field in _FIELDS if field[0] == name), None)
        if field is None:
            return
        _, _, hint, low, high = field
        label = self.query_one(f"#hint-{name}", Label)
        try:
            value = _value(name, event.value, low, high)
        except ValueError as error:
            label.update(f"✗ {error}")
            label.add_class("wrong")
            return
        label.update(hint)
        label.remove_class("wrong")
        if value != getattr(self.settings, name):
            self._change(**{name: value})

    def _change(self, **values: object) -> None:
        self.settings = replace(self.settings, **values)  # type: ignore[arg-type]
        self.post_message(self.Changed(self.settings))


def _value(name: str, text: str, low: float, high: float) -> float | int | None:
    """Raises ValueError with a sentence."""
    text = text.strip()
    if not text:
        if name in _OPTIONAL:
            return None
        raise ValueError("a number is needed")
    try:
        value: float | int = int(text) if name in _WHOLE else float(text)
    except ValueError:
        kind = "a whole number" if name in _WHOLE else "a number"
        raise ValueError(f"{text!r} is not {kind}") from None
    if not low <= value <= high:
        raise ValueError(f"between {low:g} and {high:g}")
    return value
