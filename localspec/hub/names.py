"""What the user may write for MODEL: a pair id, a path, or a place on the Hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from localspec.catalog.entries import HubSource
from localspec.catalog.load import Catalog
from localspec.catalog.nearest import did_you_mean
from localspec.errors import UsageError

_WEB = re.compile(
    r"^(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|^hf:(?://)?", re.IGNORECASE
)
_OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_REPO = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_HUB = re.compile(
    rf"(?P<repo>{_OWNER}/{_REPO})"
    r"(?:@(?P<early>[^/:@]+))?"
    r"(?:/(?P<file>[^:@]+))?"
    r"(?::(?P<choice>[^@]+))?"
    r"(?:@(?P<late>[^:@]+))?"
)
_QUANT = re.compile(
    r"(?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|F16|FP16|F32|FP32|MXFP4(?:_[A-Z0-9]+)*|NVFP4)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PairName:
    """A pair of the catalogue."""

    pair_id: str


@dataclass(frozen=True, slots=True)
class PathName:
    """A file on this machine, which may not exist."""

    path: Path


@dataclass(frozen=True, slots=True)
class HubName:
    """A file, a quantisation or a whole repository on the Hub."""

    source: HubSource


Name = PairName | PathName | HubName


def parse_name(text: str, catalog: Catalog) -> Name:
    """What `text` means. Nothing is opened and nobody is asked.

    A file that exists wins over a place on the Hub, a pair id wins over both.
    Raises UsageError with the nearest pair ids for what is none of them.
    """
    text = text.strip()
    if not text or "\0" in text:
        raise UsageError(f"{text!r} names no model", hint="localspec list shows every pair")
    pair = catalog.find(text)
    if pair is not None:
        return PairName(pair.id)
    path = Path(text).expanduser()
    if _looks_like_path(text, path):
        return PathName(path)
    web = _WEB.match(text)
    match = _HUB.fullmatch(_from_web(text[web.end() :]) if web else text)
    if match is None:
        near = did_you_mean(text, catalog.pairs)
        raise UsageError(
            f"{text!r} is no pair of the catalogue, no .gguf file and no owner/repo of the Hub",
            hint=near or "localspec list shows every pair",
            name=text,
        )
    return HubName(_hub_source(match))


def looks_like_quant(text: str) -> bool:
    """Whether `text` is the name of a quantisation, such as Q4_K_M, IQ2_XS, UD-Q4_K_XL or BF16."""
    return _QUANT.fullmatch(text) is not None


def quant_in(filename: str) -> str | None:
    """The quantisation that a file name carries, in upper case; None when it names none."""
    stem = filename.rsplit("/", 1)[-1]
    found = re.findall(rf"(?<![A-Za-z0-9])({_QUANT.pattern})(?![A-Za-z0-9])", stem, re.IGNORECASE)
    return str(found[-1]).upper() if found else None


def _hub_source(match: re.Match[str]) -> HubSource:
    filename, choice = match["file"], match["choice"]
    quant = None
    if filename is None and choice is not None:
        if choice.lower().endswith(".gguf"):
            filename = choice
        else:
            quant = choice
    return HubSource(match["repo"], filename, match["late"] or match["early"], quant)


def _from_web(rest: str) -> str:
    """`owner/repo/blob/main/file.gguf` of an address as `owner/repo/file.gguf@main`."""
    rest = rest.split("?", 1)[0].split("#", 1)[0].strip("/")
    parts = rest.split("/")
    if len(parts) >= 4 and parts[2] in ("blob", "resolve", "raw", "tree"):
        inner = "/".join(parts[4:])
        base = "/".join(parts[:2])
        revision = "" if parts[3] == "main" else f"@{parts[3]}"
        return f"{base}/{inner}{revision}" if inner else f"{base}{revision}"
    return rest


def _looks_like_path(text: str, path: Path) -> bool:
    if _WEB.match(text):
        return False
    if path.is_file():
        return True
    if text.startswith((".", "/", "~", "\\")) or re.match(r"[A-Za-z]:[\\/]", text):
        return True
    if not text.lower().endswith(".gguf") or ":" in text:
        return False
    # owner/repo/file.gguf has two slashes or more; with a folder of that name here it is a path.
    return text.count("/") < 2 or Path(text.split("/", 1)[0]).is_dir()
