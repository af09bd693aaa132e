"""llama-server's own kinds of speculation, each as one more method of the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

FOREIGN = "server:"
"""What the names of another program's methods begin with."""

BEST = f"{FOREIGN}best"
"""The fastest of all its settings for each prompt, chosen with hindsight."""


@dataclass(frozen=True, slots=True)
class ServerMethod:
    """One way to start llama-server."""

    name: str
    type: str
    """The value of `--spec-type`."""
    options: tuple[tuple[str, str], ...] = ()
    """Further options with their values, as `llama-server --help` spells them."""
    keeps_state: bool = False
    """Whether what it learns from one answer helps with the next: it then gets a new process for
    every answer, or a repeated prompt would replay the last one."""

    @property
    def needs_draft(self) -> bool:
        return self.type.startswith("draft-")


SERVER_PLAIN = ServerMethod("server:plain", "none")

SERVER_METHODS = (
    SERVER_PLAIN,
    ServerMethod("server:ngram-simple", "ngram-simple"),
    ServerMethod(
        "server:ngram-simple-short",
        "ngram-simple",
        (("--spec-ngram-simple-size-n", "4"), ("--spec-ngram-simple-size-m", "8")),
    ),
    ServerMethod("server:ngram-map-k", "ngram-map-k", keeps_state=True),
    ServerMethod(
        "server:ngram-map-k-short",
        "ngram-map-k",
        (("--spec-ngram-map-k-size-n", "4"), ("--spec-ngram-map-k-size-m", "8")),
        keeps_state=True,
    ),
    ServerMethod("server:ngram-mod", "ngram-mod", keeps_state=True),
    ServerMethod(
        "server:ngram-mod-short",
        "ngram-mod",
        (
            ("--spec-ngram-mod-n-match", "16"),
            ("--spec-ngram-mod-n-min", "2"),
            ("--spec-ngram-mod-n-max", "16"),
        ),
        keeps_state=True,
    ),
    ServerMethod("server:ngram-cache", "ngram-cache", keeps_state=True),
    ServerMethod("server:draft-simple", "draft-simple"),
    ServerMethod(
        "server:draft-simple-p0.6",
        "draft-simple",
        (("--spec-draft-n-max", "8"), ("--spec-draft-p-min", "0.6")),
    ),
)
"""Every type with its defaults, and with shorter matches or a confidence limit where it has one."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What one build of llama-server offers, read from its `--help`."""

    names: frozenset[str]
    types: frozenset[str]
    """Values that `--spec-type` takes; empty for a build without it."""

    @classmethod
    def parse(cls, text: str) -> ServerOptions:
        """From the text of `llama-server --help`; options that it calls removed are left out."""
        names: set[str] = set()
        types: set[str] = set()
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if not line.startswith("-"):
                continue
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if "argument has been removed" in line + following:
                continue
            head = re.match(r"-[\w-]+(?:,\s+-[\w-]+)*", line)
            found = re.split(r",\s+", head[0]) if head else []
            names.update(found)
            if "--spec-type" in found:
                match = re.search(r"--spec-type\s+\[?([\w,|-]+)", line)
                types.update(re.split(r"[,|]", match[1]) if match else [])
        return cls(frozenset(names), frozenset(types))

    def offers(self, method: ServerMethod) -> bool:
        """Whether this build can be started that way."""
        if not all(name in self.names for name, _ in method.options):
            return False
        return method.type == "none" or method.type in self.types


def usable_methods(
    options: ServerOptions, *, has_draft: bool, methods: Sequence[ServerMethod] = SERVER_METHODS
) -> tuple[ServerMethod, ...]:
    """Those of `methods` that this build offers, draft-model ones only where there is a draft."""
    return tuple(
        method
        for method in methods
        if options.offers(method) and (has_draft or not method.needs_draft)
    )
