"""The conformance table tells of every parameter."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.server.bodies import REFUSED, ChatBody, CompletionBody, EmbeddingBody
from localspec.server.responses_bodies import ResponsesBody

TABLE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for body in (ChatBody, CompletionBody, ResponsesBody, EmbeddingBody)
            for name in body.model_fields
        }
        | set(REFUSED)
    ),
)
def test_every_parameter_is_in_the_table(name: str) -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| `") and f"`{name}`" in line]
    assert rows, name
    told = {row.split("|")[2].strip() for row in rows}
    assert ("no" in told) if name in REFUSED else told & {"yes", "partly"}
