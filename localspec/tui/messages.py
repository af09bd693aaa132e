"""What workers and widgets tell the screens."""

from __future__ import annotations

from textual.message import Message

from localspec.errors import LocalspecError
from localspec.events import LoadProgress, Notice
from localspec.tui.backend.contract import AnswerEvent
from localspec.tui.backend.views import FitChoice, LoadedView, MachineView


class RunRequested(Message):
    """The user wants to chat with a pair."""

    def __init__(self, model: str, choice: FitChoice | None = None) -> None:
        super().__init__()
        self.model = model
        self.choice = choice


class ScreenRequested(Message):
    """The user wants another screen, perhaps for a pair."""

    def __init__(self, name: str, model: str = "") -> None:
        super().__init__()
        self.name = name
        self.model = model


class MachineFound(Message):
    """This machine is known now."""

    def __init__(self, machine: MachineView) -> None:
        super().__init__()
        self.machine = machine


class NgramsCounted(Message):
    """How much the lookup caches of past sessions hold."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count


class LoadMoved(Message):
    """Loading goes on."""

    def __init__(self, event: LoadProgress | Notice) -> None:
        super().__init__()
        self.event = event


class PullMoved(Message):
    """Files that the chat waits for are arriving."""

    def __init__(self, done: int, total: int, rate: float, state: str) -> None:
        super().__init__()
        self.done = done
        self.total = total
        self.rate = rate
        self.state = state


class Loaded(Message):
    """The models are in memory."""

    def __init__(self, view: LoadedView) -> None:
        super().__init__()
        self.view = view


class LoadFailed(Message):
    def __init__(self, error: LocalspecError) -> None:
        super().__init__()
        self.error = error


class EngineSaid(Message):
    """Something about the running answer."""

    def __init__(self, event: AnswerEvent) -> None:
        super().__init__()
        self.event = event


class AnswerEnded(Message):
    """No more events of this answer come; `error` says why when it failed."""

    def __init__(
        self, error: LocalspecError | None = None, plain_rate: float | None = None
    ) -> None:
        super().__init__()
        self.error = error
        self.plain_rate = plain_rate
