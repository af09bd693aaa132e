"""From a conversation to the text that the model was trained to see, by the file's own template."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jinja2
from jinja2.exceptions import SecurityError

from localspec.engine.chat_template_limits import LimitReached
from localspec.engine.chat_template_sandbox import RaisedByTemplate, TemplateEnvironment
from localspec.engine.settings import ChatMessage
from localspec.errors import TemplateError
from localspec.events import Notice

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""What most instruction models without a template of their own understand best."""

_HINT = "--raw sends the prompt without a template"

Messages = list[dict[str, Any]]
Tools = list[Mapping[str, Any]] | None
T = TypeVar("T")


class ChatTemplate:
    """A chat template, compiled once.

    source: Jinja text, as in `tokenizer.chat_template` of the GGUF.
    bos, eos: text of these tokens, "" where the model has none.
    Raises TemplateError when the template does not compile.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        self.source = source
        self.bos = bos
        self.eos = eos
        self._lock = threading.Lock()
        self._environment = TemplateEnvironment()
        self._template = _guarded(lambda: self._environment.compile_template(source))

    def render(
        self,
        messages: Sequence[ChatMessage],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt for `messages`.

        variables: further names for the template, such as `enable_thinking`.
        A template that refuses or loses the system message gets it in front of the first user
        message; one that wants its content in typed parts gets that.
        Raises TemplateError: what the template itself raised, or what it did wrong.
        """
        needed = [m.content.strip() for m in _must_appear(messages)]
        given = list(tools) if tools else None
        first: str | TemplateError | None = None
        for form, form_tools in _forms(messages, given):
            outcome: str | TemplateError
            try:
                outcome = self._render(form, add_generation_prompt, form_tools, variables or {})
            except TemplateError as error:
                if error.fields.get("stopped"):
                    raise
                outcome = error
            else:
                if all(text in outcome for text in needed):
                    return outcome
            # Text is better than an error, and the first of either is the most natural form.
            if first is None or (isinstance(outcome, str) and not isinstance(first, str)):
                first = outcome
        if isinstance(first, str):
            return first
        assert first is not None
        raise first

    def writes_bos(self, text: str) -> bool:
        """Whether the rendered `text` brings its own BOS, so that none may be added."""
        return bool(self.bos) and text.startswith(self.bos)

    def _render(
        self,
        messages: Messages,
        add_generation_prompt: bool,
        tools: Tools,
        variables: Mapping[str, Any],
    ) -> str:
        names = {
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "tools": tools,
            **variables,
        }
        size = sum(len(str(message)) for message in messages) + len(str(tools or ""))
        with self._lock:
            return _guarded(lambda: self._environment.run(self._template, names, size))


def template_for(
    source: str | None, bos: str = "", eos: str = ""
) -> tuple[ChatTemplate, Notice | None]:
    """The model's own template, or ChatML with a notice when it brings none."""
    if source and source.strip():
        return ChatTemplate(source, bos, eos), None
    return ChatTemplate(CHATML, bos, eos), Notice(
        "this model has no chat template; ChatML is used",
        hint="for a model that only continues text, --raw is better",
    )


def merge_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The same conversation without system messages: their text opens the next user message."""
    merged: list[ChatMessage] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user" and waiting:
            merged.append(replace(message, content="\n\n".join([*waiting, message.content])))
            waiting = []
        else:
            merged.append(message)
    if waiting:
        merged.append(ChatMessage("user", "\n\n".join(waiting)))
    return merged


def _forms(messages: Sequence[ChatMessage], tools: Tools) -> Iterator[tuple[Messages, Tools]]:
    """The conversation in the forms that templates expect, the usual one first."""
    plain = [_as_dict(message) for message in messages]
    yield plain, tools
    if any(message.role == "system" for message in messages):
        yield [_as_dict(message) for message in merge_system(messages)], tools
    yield [_with_typed_content(message) for message in plain], tools
    if tools is None:
        # Templates made for tool use alone run over the tools without asking whether there are any.
        yield plain, []


def _as_dict(message: ChatMessage) -> dict[str, Any]:
    data = message.as_template_dict()
    if message.thinking:
        data.setdefault("reasoning_content", message.thinking)
    return data


def _must_appear(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Messages whose text a faithful prompt contains: the system's, and the user's last."""
    users = [message for message in messages if message.role == "user"]
    return [message for message in messages if message.role == "system"] + users[-1:]


def _with_typed_content(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _guarded(action: Callable[[], T]) -> T:
    """Run a template's code; whatever it does wrong becomes one TemplateError."""
    try:
        return action()
    except RaisedByTemplate as error:
        raise TemplateError(f"the chat template refuses: {error}", hint=_HINT) from error
    except LimitReached as error:
        raise TemplateError(
            f"the chat template was stopped: {error}", hint=_HINT, stopped=True
        ) from error
    except SecurityError as error:
        raise TemplateError(
            f"the chat template tries what it may not: {error}",
            hint="the file is not to be trusted; " + _HINT,
            stopped=True,
        ) from error
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"the chat template is broken in line {error.lineno}: {error.message}", hint=_HINT
        ) from error
    except Exception as error:
        # It is a stranger's program: any exception at all may come out of it.
        name = type(error).__name__
        raise TemplateError(f"the chat template fails: {name}: {error}", hint=_HINT) from error
