"""What is kept between starts: the last model, settings, and how the window was."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from localspec.tui.backend.views import METHODS, ChatSettings


@dataclass(slots=True)
class UiState:
    """Written when the program ends, and after what would be a pity to lose."""

    model: str = ""
    screen: str = ""
    theme: str = ""
    method: str = "auto"
    tint: bool = True
    welcomed: bool = False
    """Whether the first start on this machine is over."""
    settings: ChatSettings = field(default_factory=ChatSettings)
    history: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> UiState:
        """What of `data` makes sense; defaults for the rest, so that no file can stop a start."""
        state = cls()
        for name in ("model", "screen", "theme"):
            value = data.get(name)
            if isinstance(value, str):
                setattr(state, name, value)
        if data.get("method") in METHODS:
            state.method = data["method"]
        state.welcomed = data.get("welcomed") is True
        state.tint = data.get("tint") is not False
        history = data.get("history")
        if isinstance(history, list):
            state.history = [text for text in history if isinstance(text, str)][-200:]
        settings = data.get("settings")
        if isinstance(settings, dict):
            state.settings = _settings(settings)
        return state


def _settings(data: dict[str, Any]) -> ChatSettings:
    """Values of the right kind; anything else keeps its default."""
    defaults = ChatSettings()
    values: dict[str, Any] = {}
    for known in fields(ChatSettings):
        value, default = data.get(known.name), getattr(defaults, known.name)
        if isinstance(value, bool):
            continue
        if isinstance(default, str):
            fits = isinstance(value, str)
        elif isinstance(default, float):
            fits = isinstance(value, int | float)
        else:
            fits = isinstance(value, int)
        if fits:
            values[known.name] = value
    return ChatSettings(**values)
