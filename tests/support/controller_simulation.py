"""The controller against synthetic machines and texts, in simulated time.

    python -m tests.support.controller_simulation

prints the table of docs/controller.md. A text is a row of places; at each a drafter is right or
wrong as a random process says. The best fixed length is found in hindsight, on the very same text.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.protocols import NO_DRAFT, Draft, Policy, Round

LENGTH = 600
"""Tokens of an answer."""
DRAFT_MAX = 16
PLAIN_S = 0.010
NOISE = 0.05
"""Relative spread of the time of a pass."""

DEAR_SHARE = 0.15
"""Time of a token of the simulated draft model, in plain passes."""

CURVES: dict[str, Callable[[int], float]] = {
    # A large model on a GPU: a wider pass costs almost nothing.
    "flat": lambda width: 1.0 + 0.01 * (width - 1),
    # A small model on a CPU, as measured for F32 and for Q4_1 weights.
    "steep": lambda width: 1.0 + 0.16 * (width - 1) + (0.3 if width > 1 else 0.0),
    "very steep": lambda width: 1.0 + 0.51 * (width - 1) + (0.4 if width > 1 else 0.0),
    # Kernels that work in tiles of eight.
    "steps": lambda width: 1.0 + 0.6 * ((width - 1) // 8) + (0.1 if width > 1 else 0.0),
}
"""Cost of a pass by width, in plain passes."""

PROCESSES: dict[str, Callable[[int], float]] = {
    "always 0.9": lambda place: 0.9,
    "always 0.6": lambda place: 0.6,
    "never": lambda place: 0.0,
    "switching": lambda place: 0.97 if place // 60 % 2 else 0.1,
    "late": lambda place: 0.05 if place < 300 else 0.95,
}
"""Probability that the drafter is right at a place, given that it was before."""


@dataclass(slots=True)
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(slots=True)
class SimulatedDrafter:
    """Right where `right` says so. token_s makes it dear: each proposed token takes that long."""

    right: Sequence[bool]
    clock: Clock
    name: str = "simulated"
    token_s: float = 0.0
    confidences: Sequence[float] = ()
    """By place; empty when it states none."""
    stop_below: float = 0.0
    place: int = 1
    n_missing: int = 1
    asked: list[int] = field(default_factory=list)

    def begin(self, tokens: Sequence[int]) -> None:
        self.place = len(tokens)

    @property
    def draws(self) -> bool:
        return False

    def propose(self, max_tokens: int, after: Sequence[int] = ()) -> Draft:
        begin = self.place + len(after)
        places = range(begin, min(begin + max_tokens, len(self.right)))
        tokens = tuple(place if self.right[place] else -1 for place in places)
        self.clock.seconds += self.token_s * len(tokens)
        self.asked.append(max_tokens)
        stated = tuple(self.confidences[place] for place in places) if self.confidences else ()
        return Draft(tokens, self.name, stated)

    def observe(self, tokens: Sequence[int], accepted: int) -> None:
        self.place += len(tokens)


@dataclass(slots=True)
class FixedLength:
    """What the controller is compared with: always `length` tokens, 0 is plain decoding."""

    drafter: SimulatedDrafter
    length: int

    def begin(self, tokens: Sequence[int]) -> None:
        self.drafter.begin(tokens)

    def propose(self, max_tokens: int) -> Draft:
        return self.drafter.propose(min(self.length, max_tokens)) if self.length else NO_DRAFT

    def observe(self, outcome: Round) -> None:
        self.drafter.observe(outcome.tokens, outcome.accepted)


def answer_seconds(
    policy: Policy, curve: Callable[[int], float], clock: Clock, seed: int, length: int = LENGTH
) -> float:
    """Simulated seconds of one answer of `length` tokens, token n of which is the number n."""
    noise = random.Random(seed)
    began = clock.seconds
    policy.begin([0])
    place = 1
    while place < length:
        before = clock.seconds
        draft = (
            policy.propose(min(DRAFT_MAX, length - place - 1)) if place + 1 < length else NO_DRAFT
        )
        proposed = clock.seconds
        accepted = 0
        while accepted < len(draft) and draft.tokens[accepted] == place + accepted:
            accepted += 1
        seconds = PLAIN_S * curve(1 + len(draft)) * max(0.5, noise.gauss(1.0, NOISE))
        clock.seconds += seconds
        tokens = tuple(range(place, place + accepted + 1))
        policy.observe(
            Round(
                tokens=tokens,
                accepted=accepted,
                drafted=len(draft),
                source=draft.source,
                draft=draft,
                propose_s=proposed - before,
                verify_s=seconds,
                rollback_s=0.0,
            )
        )
        place += len(tokens)
    return clock.seconds - began


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of the same texts under three policies, added up over the seeds."""

    plain_s: float
    best_fixed_s: float
    best_length: int
    auto_s: float

    @property
    def speedup(self) -> float:
        """Of the controller, over plain decoding."""
        return self.plain_s / self.auto_s

    @property
    def best_speedup(self) -> float:
        """Of the best fixed length in hindsight, plain decoding among them."""
        return self.plain_s / self.best_fixed_s

    @property
    def regret(self) -> float:
        """Share of time that the controller took longer than the best fixed length; below 0.0
        when it was faster."""
        return self.auto_s / self.best_fixed_s - 1.0


def simulate(
    curve_name: str,
    process_name: str,
    *,
    token_share: float = 0.0,
    honest: bool = False,
    seeds: int = 3,
) -> Outcome:
    """token_share: time of a drafted token in plain passes; above 0.0 the drafter is a dear one.

    honest: it states its probability of being right as confidence; otherwise it states nothing.
    """
    curve, process = CURVES[curve_name], PROCESSES[process_name]
    totals = [0.0] * (DRAFT_MAX + 1)
    auto = 0.0
    for seed in range(seeds):
        chance = random.Random(f"{curve_name}|{process_name}|{seed}")
        right = [chance.random() < process(place) for place in range(LENGTH + DRAFT_MAX)]
        stated = [process(place) for place in range(LENGTH + DRAFT_MAX)] if honest else ()
        clock = Clock()

        def drafter(
            right: list[bool] = right, clock: Clock = clock, stated: Sequence[float] = stated
        ) -> SimulatedDrafter:
            return SimulatedDrafter(right, clock, "simulated", token_share * PLAIN_S, stated)

        for length in range(DRAFT_MAX + 1):
            totals[length] += answer_seconds(FixedLength(drafter(), length), curve, clock, seed)
        cost = CostCurve({width: PLAIN_S * curve(width) for width in (1, 2, 4, 8, 17)})
        if token_share:
            controller = Controller([], [drafter()], cost=cost, clock=clock)
        else:
            controller = Controller([drafter()], cost=cost, clock=clock)
        auto += answer_seconds(controller, curve, clock, seed)
    best = min(range(DRAFT_MAX + 1), key=totals.__getitem__)
    return Outcome(totals[0], totals[best], best, auto)


def table(outcomes: Mapping[tuple[str, str, float], Outcome]) -> str:
    """The Markdown table of docs/controller.md, from outcomes by curve, process and token share."""
    lines = [
        "| pass cost | drafter right | drafter | best fixed | its speed-up | auto | regret |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, share in (("n-gram", 0.0), ("model", DEAR_SHARE)):
        for curve in CURVES:
            for process in PROCESSES:
                outcome = outcomes[curve, process, share]
                lines.append(
                    f"| {curve} | {process} | {kind} | {outcome.best_length} "
                    f"| {outcome.best_speedup:.2f} | {outcome.speedup:.2f} "
                    f"| {100 * outcome.regret:+.0f} % |"
                )
    return "\n".join(lines)


def main() -> None:
    outcomes = {
        (curve, process, share): simulate(curve, process, token_share=share)
        for curve in CURVES
        for process in PROCESSES
        for share in (0.0, DEAR_SHARE)
    }
    sys.stdout.write(table(outcomes) + "\n")


if __name__ == "__main__":
    main()
