"""From a request to prompt tokens: the chat template, BOS once and only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localspec.engine.chat_template import ChatTemplate, template_for
from localspec.engine.settings import ChatMessage, GenerateRequest
from localspec.engine.tools_as_text import shows_tools, with_tools_as_text
from localspec.errors import UsageError
from localspec.events import Notice
from localspec.llama.model import Model


class PromptBuilder:
    """Knows one model's template and tokenizer. The template is compiled when first needed, so
    that a broken one does not keep anybody from sending raw prompts."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._template: ChatTemplate | None = None
        self._notice: Notice | None = None

    def build(self, request: GenerateRequest) -> tuple[list[int], str]:
        """Token ids of the prompt, and its text ("" when tokens were given).

        Raises TemplateError for a broken template, UsageError for an empty request.
        """
        if request.prompt_tokens:
            self._check_tokens(request.prompt_tokens)
            return list(request.prompt_tokens), ""
        vocabulary = self._model.vocabulary
        if request.messages:
            text = self.render(request.messages, request.tools, request.template_variables)
            adds_bos = not self._templated().writes_bos(text)
        elif request.prompt:
            text, adds_bos = request.prompt, True
        else:
            raise UsageError("there is nothing to answer: the prompt is empty")
        tokens = vocabulary.tokenize(text, add_special=adds_bos, parse_special=True)
        if not tokens:
            raise UsageError("the prompt has no tokens")
        return tokens, text

    def take_notice(self) -> Notice | None:
        """What to tell about the template: once, after its first use."""
        notice, self._notice = self._notice, None
        return notice

    def render(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt's text. A template that does not show `tools` to the model gets them in a
        system message instead, with the calls of earlier turns as text.

        Raises TemplateError.
        """
        template = self._templated()
        if tools and not shows_tools(template, messages, tools, variables):
            return template.render(with_tools_as_text(messages, tools), variables=variables)
        return template.render(messages, tools=tools or None, variables=variables)

    def _templated(self) -> ChatTemplate:
        if self._template is None:
            vocabulary = self._model.vocabulary
            self._template, self._notice = template_for(
                self._model.metadata("tokenizer.chat_template"),
                vocabulary.text_of(vocabulary.bos),
                vocabulary.text_of(vocabulary.eos),
            )
        return self._template

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        n_vocab = self._model.vocabulary.n_tokens
        for token in tokens:
            if not 0 <= token < n_vocab:
                raise UsageError(f"token {token} is not in a vocabulary of {n_vocab}")
