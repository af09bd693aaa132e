"""The OpenAPI document of this server, made from the bodies that are checked."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from localspec import __version__
from localspec.server.bodies import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    TemplateBody,
    TokenizeBody,
)
from localspec.server.responses_bodies import ResponsesBody

_POSTS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("/v1/chat/completions", ChatBody, "Answer a conversation"),
    ("/v1/completions", CompletionBody, "Go on with a text"),
    ("/v1/responses", ResponsesBody, "Answer a conversation, in the newer form"),
    ("/v1/embeddings", EmbeddingBody, "Vectors of texts"),
    ("/tokenize", TokenizeBody, "Token ids of a text"),
    ("/detokenize", DetokenizeBody, "Text of token ids"),
    ("/apply-template", TemplateBody, "The prompt that messages become"),
)
_GETS = (
    ("/v1/models", "application/json", "What can be asked"),
    ("/health", "application/json", "Whether the server lives"),
    ("/metrics", "text/plain", "Counters for Prometheus"),
)
_ERRORS = {
    "400": "A parameter is wrong; the error names it",
    "401": "The API key is missing or wrong",
    "403": "Host or Origin is not allowed",
    "404": "There is no such model",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "429": "Too many requests wait; Retry-After says when to come again",
    "431": "Too many headers",
    "500": "The engine failed; the request can be sent again",
    "503": "The model does not fit, or the server stops",
}


def document() -> dict[str, Any]:
    kinds = [(kind, "validation") for _, kind, _ in _POSTS]
    _, definitions = models_json_schema(
        kinds,  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, Any] = {}
    for path, kind, summary in _POSTS:
        body = {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}
        paths[path] = {
            "post": {
                "summary": summary,
                "operationId": kind.__name__,
                "requestBody": {"required": True, "content": {"application/json": body}},
                "responses": _responses("application/json"),
            }
        }
        if "stream" in kind.model_fields:
            paths[path]["post"]["responses"]["200"]["content"]["text/event-stream"] = {}
    for path, media, summary in _GETS:
        paths[path] = {"get": {"summary": summary, "responses": _responses(media)}}
    paths["/v1/models/{model}"] = {
        "get": {
            "summary": "One model",
            "parameters": [
                {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "responses": _responses("application/json"),
        }
    }
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "localspec", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Error": error},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _responses(media: str) -> dict[str, Any]:
    found: dict[str, Any] = {"200": {"description": "Done", "content": {media: {}}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status, description in _ERRORS.items():
        found[status] = {"description": description, "content": content}
    return found
