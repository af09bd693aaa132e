"""What is measured against plain decoding: the engine's own methods, as named settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from localspec.engine.settings import DRAFT_METHODS, GenerateRequest
from localspec.errors import UsageError

PLAIN_NAME = "plain"
"""Name of the baseline in every table; the engine calls it method `none`."""

_FIXED = re.compile(r"(?P<method>[a-z]+)@(?P<length>\d+)")


@dataclass(frozen=True, slots=True)
class Method:
    """One column of the table, measured on the engine."""

    name: str
    """As the user writes it and as tables show it: `plain`, `auto`, `ngram@4`."""
    method: str
    """The engine's method, one of DRAFT_METHODS."""
    draft_max: int | None = None
    """Draft tokens in a round at most, all of them verified whatever that costs; None leaves
    length and cap to the engine."""

    def apply(self, request: GenerateRequest) -> GenerateRequest:
        """`request`, to be answered by this method."""
        return replace(
            request,
            method=self.method,
            draft_max=self.draft_max,
            fixed_length=self.draft_max is not None,
        )

    @property
    def needs_draft(self) -> bool:
        """Whether it cannot run without a draft model."""
        return self.method == "model"


PLAIN = Method(PLAIN_NAME, "none")


def parse_method(text: str) -> Method:
    """The method named `plain`, `ngram`, `model`, `auto`, or with a draft length: `model@8`.

    Raises UsageError for any other name.
    """
    name = text.strip().lower()
    if name in (PLAIN_NAME, "none"):
        return PLAIN
    fixed = _FIXED.fullmatch(name)
    method = fixed["method"] if fixed else name
    length = int(fixed["length"]) if fixed else None
    drafting = [known for known in DRAFT_METHODS if known != "none"]
    if method not in drafting or length == 0:
        raise UsageError(
            f"{text!r} is not a method to measure",
            hint=f"plain, {', '.join(drafting)}, or one with a draft length such as ngram@4",
            method=text,
        )
    return Method(name, method, length)


def choose_methods(names: Iterable[str], *, has_draft: bool) -> tuple[Method, ...]:
    """The methods of these names, plain first whether named or not, each once.

    Raises UsageError for a draft-model method where no draft model is loaded.
    """
    chosen = [PLAIN]
    for name in names:
        method = parse_method(name)
        if method.needs_draft and not has_draft:
            raise UsageError(
                f"method {method.name} needs a draft model, and there is none",
                hint="name one with --draft PATH, or measure ngram and auto",
                method=method.name,
            )
        if method not in chosen:
            chosen.append(method)
    return tuple(chosen)


def default_methods(*, has_draft: bool) -> tuple[Method, ...]:
    """Plain, every drafter that is there, and `auto`."""
    names = ("ngram", "model", "auto") if has_draft else ("ngram", "auto")
    return choose_methods(names, has_draft=has_draft)


def fixed_methods(*, has_draft: bool) -> tuple[Method, ...]:
    """Fixed draft lengths: what `auto` has to equal without being told which of them is best."""
    names = [f"ngram@{length}" for length in (2, 4, 8)]
    if has_draft:
        names += [f"model@{length}" for length in (2, 4, 8)]
    return tuple(parse_method(name) for name in names)
