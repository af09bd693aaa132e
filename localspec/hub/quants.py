"""Which file of a repository: its quantisations, split files put together, the best one chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from localspec.hub.names import quant_in

_SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_HEADS = re.compile(r"(?:^|[-_.])(mtp|eagle3|dflash|dspark)(?:[-_.]|$)", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "imatrix", "ggml-vocab")

_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_0", "IQ4_XS", "MXFP4", "Q5_K_M", "Q8_0")
"""Where nothing is known of the machine: what the Hub's users take, best first."""
_UNQUANTISED = ("F16", "FP16", "BF16", "F32", "FP32")


@dataclass(frozen=True, slots=True)
class RepoFile:
    """One file in the listing of a repository."""

    path: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Variant:
    """One model of a repository: a file, or the parts of a split one."""

    files: tuple[RepoFile, ...]
    """In order; the first one names the model."""

    @property
    def path(self) -> str:
        return self.files[0].path

    @property
    def quant(self) -> str:
        """`Q4_K_M`; empty when the name tells none."""
        split = _SPLIT.fullmatch(self.path)
        return quant_in(split["stem"] if split else self.path) or ""

    @property
    def size(self) -> int:
        """Bytes of all parts, as far as the listing tells."""
        return sum(file.size or 0 for file in self.files)

    @property
    def head(self) -> str:
        """`mtp`, `eagle3`, `dflash` or `dspark` for a drafter's file; empty for a model."""
        found = _HEADS.search(self.path.rsplit("/", 1)[-1])
        return "" if found is None else found[1].lower()


def variants(files: Iterable[RepoFile]) -> list[Variant]:
    """The models of a repository by name; a split one of which a part is missing is left out."""
    whole: list[Variant] = []
    split: dict[tuple[str, int], dict[int, RepoFile]] = {}
    for file in files:
        name = file.path.rsplit("/", 1)[-1].lower()
        if not name.endswith(".gguf") or name.startswith(_NOT_MODELS):
            continue
        match = _SPLIT.fullmatch(file.path)
        if match is None:
            whole.append(Variant((file,)))
        else:
            parts = split.setdefault((match["stem"], int(match["count"])), {})
            parts[int(match["number"])] = file
    for (_, count), parts in split.items():
        if sorted(parts) == list(range(1, count + 1)):
            whole.append(Variant(tuple(parts[number] for number in sorted(parts))))
    return sorted(whole, key=lambda variant: variant.path)


def part_names(filename: str) -> tuple[str, ...]:
    """All parts of a split file that one of them names; the name alone for a whole file."""
    match = _SPLIT.fullmatch(filename)
    if match is None:
        return (filename,)
    count = int(match["count"])
    suffix = filename[-5:]
    return tuple(
        f"{match['stem']}-{number:05d}-of-{count:05d}{suffix}" for number in range(1, count + 1)
    )


def choose(candidates: Iterable[Variant], budget: int | None = None) -> Variant | None:
    """The variant to take when the user named none; None when there is no model.

    budget: bytes of device memory for weights. With it, the largest quantised variant that goes
    in, for more bits answer better; none goes in: the smallest. Without it, the usual ones first.
    """
    models = [variant for variant in candidates if not variant.head]
    quantised = [variant for variant in models if variant.quant not in _UNQUANTISED] or models
    if not quantised:
        return None
    if budget is not None and all(variant.size for variant in quantised):
        fitting = [variant for variant in quantised if variant.size <= budget]
        if fitting:
            return max(fitting, key=lambda variant: variant.size)
        return min(quantised, key=lambda variant: variant.size)
    for quant in _PREFERRED:
        for variant in quantised:
            if variant.quant.removeprefix("UD-") == quant:
                return variant
    return min(quantised, key=lambda variant: variant.size)


def with_quant(candidates: Iterable[Variant], asked: str) -> Variant | None:
    """The variant that `asked` means, upper and lower case alike: its quantisation, or a piece of
    its file name; None when none or more than one could be meant."""
    models = list(candidates)
    wanted = asked.lower()
    exact = [variant for variant in models if variant.quant.lower() == wanted]
    exact = [variant for variant in exact if not variant.head] or exact
    if exact:
        return exact[0]
    unprefixed = [v for v in models if v.quant.lower().removeprefix("ud-") == wanted]
    unprefixed = [variant for variant in unprefixed if not variant.head] or unprefixed
    if unprefixed:
        return unprefixed[0]
    named = [variant for variant in models if wanted in variant.path.lower()]
    return named[0] if len(named) == 1 else None
