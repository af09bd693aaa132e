"""The prompt text that the engine makes of a conversation, for programs that are given text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.bench.contestants import Question
from localspec.engine.chat_template import ChatTemplate, template_for
from localspec.ggufmeta.header import read_header
from localspec.ggufmeta.vocabulary import read_vocabulary


@dataclass(frozen=True, slots=True)
class PromptText:
    text: str
    adds_bos: bool
    """Whether the tokenizer is to add BOS where the model wants one: not when the template has
    written it already."""


class PromptWriter:
    """One model file's chat template, the same that the engine uses."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    @classmethod
    def of_file(cls, path: Path) -> PromptWriter:
        """The writer for the model at `path`. Raises BadModelFile, TemplateError."""
        header = read_header(path)
        vocabulary = read_vocabulary(header)
        texts = vocabulary.texts()
        source = header.metadata.get("tokenizer.chat_template")

        def text_of(token: int | None) -> str:
            known = token is not None and 0 <= token < len(texts)
            return texts[token].decode("utf-8", "replace") if known and token is not None else ""

        template, _ = template_for(
            source if isinstance(source, str) else None,
            text_of(vocabulary.bos),
            text_of(vocabulary.eos),
        )
        return cls(template)

    def write(self, question: Question) -> PromptText:
        """The text of a question, through the template unless it is raw. Raises TemplateError."""
        if question.raw:
            return PromptText(question.messages[-1].content, adds_bos=True)
        text = self._template.render(question.messages)
        return PromptText(text, adds_bos=not self._template.writes_bos(text))
