"""What could draft for a target, in order, and what names tell of family and size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from localspec.ggufmeta.header import Header

GOOD_RATIO = 0.2
"""A draft of at most a fifth of the target's size is about five times faster: what pays."""
_SIZE_IN_NAME = re.compile(
    r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)\s?([bm])(?![A-Za-z0-9])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """One model or head that could draft."""

    name: str
    """What `--draft` or `pair add` may be given."""
    method: str
    """`draft` for a model; `mtp`, `eagle3`, `dflash`, `dspark` for a head of the target."""
    found: str
    """`disk`, `catalogue`, `repository` or `Hub`."""
    on_disk: bool
    size: int | None
    """Bytes; None when nobody said."""
    ratio: float | None
    """Size over the target's; None when one of them is not known."""
    vocabulary: str
    """`identical`, `compatible`, or `unchecked` where no header could be read."""
    measured_speedup: float | None = None
    """Of a pair with this draft on this machine; None when `bench` has none."""

    @property
    def small_enough(self) -> bool:
        return self.ratio is not None and self.ratio <= GOOD_RATIO


@dataclass(frozen=True, slots=True)
class DraftSearch:
    """What a search found."""

    target: str
    candidates: tuple[DraftCandidate, ...]
    """Best first: measured ones by what they won, then those of a fifth or less, smallest first."""
    refused: tuple[tuple[str, str], ...] = ()
    """Near candidates whose vocabulary does not fit, with the reason."""
    notes: tuple[str, ...] = ()


def rank(candidate: DraftCandidate) -> tuple[float, bool, bool, float, str]:
    """A key that sorts the best first, as `DraftSearch.candidates` is sorted."""
    return (
        -(candidate.measured_speedup or 0.0),
        candidate.method != "draft",
        not candidate.small_enough,
        candidate.ratio if candidate.ratio is not None else 1.0,
        candidate.name,
    )


def family_of(name: str) -> str:
    """`qwen3` of `Qwen_Qwen3-32B-Q4_K_M`: what the names of one vocabulary have in common."""
    stem = name.rsplit("/", 1)[-1]
    stem = stem.split("_", 1)[1] if re.match(r"[A-Za-z]+_[A-Za-z]", stem) else stem
    match = re.match(r"(?:Meta-)?([A-Za-z]+[\d.]*(?:-?\d+(?:\.\d+)?(?![\dBbMm.]))?)", stem)
    family = match[1].lower().rstrip(".-") if match else ""
    # Llama 3 to 3.3 share one vocabulary; Qwen3 and Qwen3.5 do not.
    return re.sub(r"^llama-3\.\d$", "llama-3", family)


def why_no_gain(target: Header, draft: Header, *, same_file: bool) -> str:
    """Why a draft cannot make its target faster, by its parameters; empty when it may."""
    if same_file:
        return "target and draft are the same file: drafting costs as much as answering"
    wanted, used = parameter_count(target), parameter_count(draft)
    if used < wanted:
        return ""
    larger = "as large as" if used == wanted else "larger than"
    return (
        f"the draft is {larger} the target ({format_parameters(used)} and "
        f"{format_parameters(wanted)} parameters): it cannot make it faster"
    )


def parameter_count(header: Header) -> int:
    """Parameters of a model: elements of all its tensors."""
    return sum(prod(tensor.shape) for tensor in header.tensors)


def format_parameters(count: int) -> str:
    """`8.2B`, `135M`."""
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"


def parameters_of(name: str) -> float | None:
    """Parameters that a name tells: `0.6B`, `270m`."""
    found = _SIZE_IN_NAME.search(name.replace("_", " ").replace("-", " "))
    if found is None:
        return None
    return float(found[1]) * (1e9 if found[2].lower() == "b" else 1e6)
