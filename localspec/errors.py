"""One exception tree. Every error a user can cause or meet says what, which value, and what to do.

The command line turns these into one line of text, one line of hint and an exit code; the engine's
child process sends them to its parent as plain data (`as_dict`, `from_dict`).
"""

from __future__ import annotations

from typing import Any, ClassVar


class LocalspecError(Exception):
    """Base of every error that is told to the user.

    message: one sentence that names the thing and the values.
    hint: what to do about it, one line; empty when there is nothing to say.
    fields: the values as data, JSON-compatible, for `--json` and for other programs.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def as_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` turns back into the same error in another process."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "hint": self.hint,
            "fields": self.fields,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> LocalspecError:
        """The error that `as_dict` described; an unknown kind becomes a plain LocalspecError."""
        kind = _kinds().get(data["error"], LocalspecError)
        return kind(data["message"], hint=data["hint"], **data["fields"])

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalspecError.from_dict, (self.as_dict(),))


class UsageError(LocalspecError):
    """A wrong option, argument or configuration value."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration or catalogue file that does not validate."""


class DownloadError(LocalspecError):
    """A file could not be fetched, verified or stored."""

    exit_code = 3


class DoesNotFit(LocalspecError):
    """The models do not go into memory with these settings."""

    exit_code = 4


class IncompatiblePair(LocalspecError):
    """Target and draft cannot work together."""

    exit_code = 5


class BadModelFile(LocalspecError):
    """A file that is missing, not GGUF, truncated, hostile or not supported."""

    exit_code = 6


class CacheFileError(LocalspecError):
    """A lookup cache that cannot be used: truncated, foreign or unreadable."""


class PromptTooLong(UsageError):
    """The prompt does not fit into the context."""


class TemplateError(BadModelFile):
    """A chat template that is broken or tries what it may not."""


class SamplerError(LocalspecError):
    """The sampler chain left no token to choose (for example an impossible grammar)."""


class EngineError(LocalspecError):
    """llama.cpp answered a call with a failure."""


class EngineCrashed(EngineError):
    """The engine's process ended without an answer; `fields["log"]` has its last lines."""


class Cancelled(LocalspecError):
    """The running request was cancelled; whoever asked for that expects it."""

    exit_code = 130


class Interrupted(LocalspecError):
    """The user stopped the program."""

    exit_code = 130


def _kinds() -> dict[str, type[LocalspecError]]:
    found: dict[str, type[LocalspecError]] = {}
    pending: list[type[LocalspecError]] = [LocalspecError]
    while pending:
        kind = pending.pop()
        found[kind.__name__] = kind
        pending.extend(kind.__subclasses__())
    return found
