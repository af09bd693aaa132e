"""What loading really took beyond the plan, remembered per device for the next plan.

A CUDA context and its libraries lie outside all buffers and differ by driver, card and build. After
a load the difference between the free memory that vanished and the plan is kept, and the next plan
keeps that much free (`this_machine(reserves=...)`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from localspec.units import GIB
from localspec.whole_file import write_whole

_MOST = 4 * GIB
"""Another program that started meanwhile may look like ours; more than this is not a driver's."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bytes outside all buffers by device name, in one JSON file."""

    path: Path

    def reserves(self) -> dict[str, int]:
        """What is known; empty without a usable file."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            str(name): size
            for name, size in found.items()
            if isinstance(size, int) and 0 <= size <= _MOST
        }

    def learn(self, device: str, *, planned: int, free_before: int, free_after: int) -> int | None:
        """Keep what a load took on `device` beyond its plan; returns it, None for nonsense.

        planned: bytes of the plan; free_before, free_after: what the driver said around the load.
        """
        beyond = free_before - free_after - planned
        if not 0 <= beyond <= _MOST:
            return None
        known = self.reserves()
        known[device] = beyond
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(known, indent=1, sort_keys=True))
        except OSError:
            # A figure that cannot be kept is measured again next time.
            return beyond
        return beyond
