"""Answers that must be JSON are valid JSON by their schema, whatever drafts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from localspec.decoding.sampling import SamplingSettings
from localspec.engine.settings import DRAFT_METHODS, GenerateRequest
from localspec.server.json_schema import grammar_for
from tests.support.engine import open_session
from tests.support.tiny_gguf import write_tiny

pytestmark = pytest.mark.engine

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 6},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "kind": {"enum": ["cat", "dog", None]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"},
        "inner": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}]},
    },
    "required": ["name", "age", "kind", "inner"],
    "additionalProperties": False,
    "$defs": {
        "pair": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}
    },
}
TRIES = 200


@pytest.mark.parametrize("method", DRAFT_METHODS)
def test_every_answer_at_temperature_1_is_valid(method: str, tmp_path: Path) -> None:
    """A random model breaks every rule it is not made to keep."""
    target = write_tiny(tmp_path / "target.gguf", "llama", seed=3)
    draft = write_tiny(tmp_path / "draft.gguf", "llama", seed=3, noise=0.05)
    grammar = grammar_for(SCHEMA)
    accepted = 0
    with open_session(target, draft, method=method, draft_max=6) as session:
        for seed in range(TRIES):
            sampling = SamplingSettings(temp=1.0, grammar=grammar, seed=seed)
            request = GenerateRequest(
                prompt='{"name": "x", "age": 20, "kind": "cat"}', sampling=sampling, max_tokens=400
            )
            answer = session.generate(request, lambda event: None)
            assert answer.finish_reason == "stop", answer.text
            jsonschema.validate(json.loads(answer.text), SCHEMA)
            accepted += answer.speculation.accepted
    assert method == "none" or accepted > 0, "nothing was drafted, so nothing was shown"
