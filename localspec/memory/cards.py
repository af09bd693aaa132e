"""Known machines by name, for `--card`: what to imagine when the card is not here."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from localspec.errors import UsageError
from localspec.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class Card:
    name: str
    memory: int
    """Bytes: of the card, or of the whole machine when it is unified."""
    unified: bool = False


def _rtx(name: str, gib: int) -> Card:
    return Card(name, gib * GIB)


_CARDS = (
    _rtx("rtx-3050", 8),
    _rtx("rtx-3060", 12),
    _rtx("rtx-3060-ti", 8),
    _rtx("rtx-3070", 8),
    _rtx("rtx-3080", 10),
    _rtx("rtx-3080-12", 12),
    _rtx("rtx-3080-ti", 12),
    _rtx("rtx-3090", 24),
    _rtx("rtx-4060", 8),
    _rtx("rtx-4060-ti", 8),
    _rtx("rtx-4060-ti-16", 16),
    _rtx("rtx-4070", 12),
    _rtx("rtx-4070-super", 12),
    _rtx("rtx-4070-ti", 12),
    _rtx("rtx-4070-ti-super", 16),
    _rtx("rtx-4080", 16),
    _rtx("rtx-4090", 24),
    _rtx("rtx-5060", 8),
    _rtx("rtx-5060-ti-16", 16),
    _rtx("rtx-5070", 12),
    _rtx("rtx-5070-ti", 16),
    _rtx("rtx-5080", 16),
    _rtx("rtx-5090", 32),
    _rtx("rtx-a6000", 48),
    *(
        Card(f"{chip}-{gib}", gib * GIB, unified=True)
        for chip, sizes in (
            ("m1", (8, 16)),
            ("m1-pro", (16, 32)),
            ("m1-max", (32, 64)),
            ("m2", (8, 16, 24)),
            ("m2-pro", (16, 32)),
            ("m2-max", (32, 64, 96)),
            ("m2-ultra", (64, 128, 192)),
            ("m3", (8, 16, 24)),
            ("m3-pro", (18, 36)),
            ("m3-max", (36, 48, 64, 96, 128)),
            ("m3-ultra", (96, 256, 512)),
            ("m4", (16, 24, 32)),
            ("m4-pro", (24, 48, 64)),
            ("m4-max", (36, 48, 64, 128)),
        )
        for gib in sizes
    ),
)
CARDS: dict[str, Card] = {card.name: card for card in _CARDS}


def find_card(name: str) -> Card:
    """Raises UsageError with the nearest names for a card that is not in the table."""
    wanted = "-".join(name.lower().replace("_", "-").replace(" ", "-").split())
    wanted = wanted.removeprefix("nvidia-").removeprefix("geforce-").removeprefix("apple-")
    if wanted in CARDS:
        return CARDS[wanted]
    near = get_close_matches(wanted, CARDS, n=3)
    raise UsageError(
        f"there is no card {name!r} in the table",
        hint=f"did you mean {' or '.join(near)}?" if near else "say its memory: --vram 24GiB",
    )


def metal_budget(memory: int) -> int:
    """Bytes a GPU may use of `memory` bytes of unified memory.

    recommendedMaxWorkingSetSize as Metal reports it: 2/3 below 36 GB, 3/4 from there (10,923 MB of
    16 GB, 49,152 MB of 64 GB).
    """
    return memory * 3 // 4 if memory >= 36 * 1000**3 else memory * 2 // 3


WINDOWS_RESERVE = 512 * MIB


def windows_reserve(total: int) -> int:
    """Windows spills into shared memory instead of failing: keep this much of a card free."""
    return max(WINDOWS_RESERVE, total // 16)
