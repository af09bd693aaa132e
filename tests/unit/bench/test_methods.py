from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.bench.methods import (
    PLAIN,
    Method,
    choose_methods,
    default_methods,
    fixed_methods,
    parse_method,
)
from localspec.engine.settings import GenerateRequest
from localspec.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", PLAIN),
        ("none", PLAIN),
        ("auto", Method("auto", "auto")),
        ("ngram@4", Method("ngram@4", "ngram", 4)),
        (" Model@8 ", Method("model@8", "model", 8)),
    ],
)
def test_a_method_is_read_from_its_name(text: str, expected: Method) -> None:
    assert parse_method(text) == expected


@pytest.mark.parametrize("text", ["", "medusa", "ngram@0", "none@3", "ngram@", "ngram@x"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_method(text)


def test_a_method_sets_drafter_and_length_of_a_request_and_nothing_else() -> None:
    request = GenerateRequest(prompt="hello", max_tokens=7, fresh_caches=True)
    applied = parse_method("ngram@4").apply(request)
    assert applied == replace(request, method="ngram", draft_max=4, fixed_length=True)


def test_a_method_without_a_length_leaves_the_length_to_the_engine() -> None:
    request = GenerateRequest(prompt="hello")
    assert parse_method("ngram").apply(request) == replace(request, method="ngram")


def test_plain_is_always_measured_and_first() -> None:
    names = [method.name for method in choose_methods(["auto", "plain", "auto"], has_draft=False)]
    assert names == ["plain", "auto"]


def test_draft_model_methods_need_a_draft_model() -> None:
    with pytest.raises(UsageError, match="needs a draft model"):
        choose_methods(["model@4"], has_draft=False)
    assert not any(method.needs_draft for method in default_methods(has_draft=False))
    assert not any(method.needs_draft for method in fixed_methods(has_draft=False))
    assert any(method.needs_draft for method in default_methods(has_draft=True))
