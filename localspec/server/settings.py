"""How a server runs: what it serves, where it listens, whom it answers, how much it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from localspec.decoding.sampling import SamplingSettings
from localspec.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model that requests may name."""

    id: str
    engine: EngineSettings
    required: int = 0
    """Bytes of device memory it needs with its draft; 0 when nobody knows."""
    aliases: tuple[str, ...] = ()
    """Other names that mean this model."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes at most; beyond it a request gets an error, not a place in memory."""

    body_bytes: int = 8 * 1024 * 1024
    headers: int = 100
    connections: int = 512
    waiting: int = 256
    """Requests that wait for a slot of one model."""
    body_s: float = 30.0
    """Seconds a client may take to send its body."""
    drain_s: float = 30.0
    """Seconds that running answers get to finish when the server stops."""
    choices: int = 16
    """Answers to one request (`n`)."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that is fixed while the server runs."""

    models: tuple[ServedModel, ...]
    """The first is what requests without a model get."""
    host: str = "127.0.0.1"
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    """Keys that open the server; none opens it to everybody, on loopback alone."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in `Host` beside addresses and loopback names."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server."""
    slots: int = 1
    """Answers that one model decodes at a time."""
    memory_budget: int | None = None
    """Bytes that loaded models may need together; None loads without counting."""
    idle_unload_s: float | None = None
    log_prompts: bool = False
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    """What requests get for options that they leave out."""
    limits: Limits = field(default_factory=Limits)
