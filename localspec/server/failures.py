"""What goes wrong, in the shape the OpenAI clients read: status, message, type, parameter, code."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from localspec.errors import (
    BadModelFile,
    DoesNotFit,
    EngineError,
    IncompatiblePair,
    LocalspecError,
    PromptTooLong,
    SamplerError,
    TemplateError,
    UsageError,
)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "server_error",
    503: "overloaded_error",
}


class ApiError(Exception):
    """An answer that is an error. The client sees all of it, so nothing private belongs in it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        """The parameter at fault, with its path: `messages[0].role`."""
        self.code = code
        self.retry_after_s = retry_after_s

    def as_dict(self) -> dict[str, Any]:
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, "server_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False)

    def as_response(self) -> JSONResponse:
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.as_dict(), self.status, headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 that names the parameter at fault."""
    return ApiError(400, message, param=param, code=code)


def as_api_error(error: LocalspecError, prompt_param: str = "messages") -> ApiError:
    """What the engine, the template or the hub reported, without paths, logs or traces.

    prompt_param: what the request calls its prompt.
    """
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    match error:
        case PromptTooLong():
            return ApiError(400, text, param=prompt_param, code="context_length_exceeded")
        case UsageError():
            return ApiError(400, text, code="invalid_value")
        case TemplateError():
            return ApiError(400, text, param=prompt_param, code="template_error")
        case SamplerError():
            return ApiError(400, text, code="sampler_error")
        case DoesNotFit():
            return ApiError(503, text, code="model_does_not_fit", retry_after_s=30)
        case BadModelFile() | IncompatiblePair():
            return ApiError(503, "the model cannot be loaded", code="model_not_loadable")
        case EngineError():
            # The message may quote native code; the server's own log has it.
            return ApiError(500, "the engine failed; the request can be sent again", code="engine")
        case _:
            return ApiError(500, "the server failed", code="internal")
