"""Chat: the transcript, the line one writes in, and the live panel."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from localspec.errors import LocalspecError
from localspec.tui.screens.chat_panels import ChatPanels
from localspec.tui.widgets.entries import Thought
from localspec.tui.widgets.prompt_input import PromptInput
from localspec.tui.widgets.transcript import Transcript


class ChatScreen(ChatPanels):
    """Everything the user does with the loaded pair: the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=False),
        Binding("ctrl+r", "regenerate", "Again", priority=True),
        Binding("ctrl+e", "edit", "Edit", priority=True),
        Binding("ctrl+s", "drafter", "Drafter", priority=True),
        Binding("ctrl+t", "tint", "Tint", priority=True),
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+l", "chats", "Chats", priority=True),
        Binding("f2", "settings", "Settings", priority=True),
        Binding("ctrl+o", "attach", "Attach", priority=True, show=False),
        Binding("ctrl+y", "copy", "Copy answer", priority=True, show=False),
        Binding("ctrl+k", "fold", "Fold thinking", priority=True, show=False),
        Binding("ctrl+x", "export", "Export", priority=True, show=False),
        Binding("ctrl+b", "panel", "Panel", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
    ]

    @on(PromptInput.Submitted)
    def _submitted(self, event: PromptInput.Submitted) -> None:
        if self._current is not None:
            self._activity.say("an answer is being written", "esc stops it", level="warn")
            return
        if not self._model:
            self._activity.say(
                "no model is chosen", "F3 shows the models; enter runs one", level="warn"
            )
            return
        self._prompt.remember(event.text)
        self._prompt.clear()
        if self._loaded is None:
            self._waiting_text = event.text
            if not self._is_loading:
                self.open_model(self._model, self._choice)
            return
        self._send(event.text)

    async def action_stop(self) -> None:
        """Escape: stop the answer, or close what is open, or go back to writing."""
        if self._current is not None:
            await self.backend.stop()
        elif self._attach_field.display:
            self._close_attach()
        elif self._chat_list.display:
            self._toggle(self._chat_list, show=False)
        elif self._settings_panel.display:
            self._toggle(self._settings_panel, show=False)
        elif self._is_loading:
            self.workers.cancel_group(self, "load")
            self._activity.say("loading was stopped", "send a message to load again")
        self._prompt.focus()

    def action_regenerate(self) -> None:
        if self._current is not None:
            return
        if not self.session.drop_answer():
            self._activity.say("there is nothing to answer again")
            return
        self._forget_entries(len(self.session.turns))
        if self._loaded is None:
            self._waiting_text = self._pop_question()
            self.open_model(self._model, self._choice)
            return
        self._begin_answer()

    def action_edit(self) -> None:
        """The last question comes back into the input; sending it replaces what followed."""
        if self._current is not None:
            return
        text = self._pop_question()
        if text:
            self._prompt.put(text)
            self._prompt.focus()

    def action_drafter(self) -> None:
        has_draft = self._loaded is not None and self._loaded.has_draft
        self.session.next_method(has_draft=has_draft)
        self._show_figures()

    def action_tint(self) -> None:
        self._transcript.show_look(self.look, tint=not self._transcript.has_tint)
        word = "tinted" if self._transcript.has_tint else "not tinted"
        self._activity.say(f"drafted text is {word}")

    def action_new(self) -> None:
        if self._current is not None:
            return
        self.session.start_new()
        self._panel.meter = self.session.meter
        self._activity.clear()
        self._show_conversation()
        self._prompt.focus()

    def action_fold(self) -> None:
        thoughts = [e for e in self._transcript.entries if isinstance(e, Thought)]
        folded = any(not thought.folded for thought in thoughts)
        for thought in thoughts:
            thought.folded = folded
            self._transcript.refresh_entry(thought)

    @on(Transcript.FoldClicked)
    def _fold_clicked(self, event: Transcript.FoldClicked) -> None:
        event.thought.folded = not event.thought.folded
        self._transcript.refresh_entry(event.thought)

    def action_copy(self) -> None:
        text = self.session.last_answer()
        if text is None:
            self._activity.say("there is no answer to copy yet")
            return
        self.app.copy_to_clipboard(text)
        self._activity.say(f"copied {len(text):,} characters")

    def action_export(self) -> None:
        try:
            path = self.session.export(Path.cwd())
        except LocalspecError as error:
            self._activity.say(error.message, error.hint, level="bad")
        else:
            self._activity.say(f"exported to {path}")

    def action_page(self, direction: int) -> None:
        step = max(1, self._transcript.size.height - 2)
        self._transcript.scroll_relative(y=direction * step, animate=False)

    def action_panel(self) -> None:
        panel = self._panel
        panel.set_class(not panel.display, "shown")
        panel.set_class(panel.display, "hidden")
