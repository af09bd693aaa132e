"""Replay drafting methods over recorded answers, in simulated time.

    python scripts/replay_controller.py f32=F32.jsonl q4_0=Q4_0.jsonl [--half held-out] [--prompts]

Each argument names a cost curve and a file of `scripts/record_answers.py`. A greedy answer does not
depend on speed, so what each method would have taken for it can be computed on any machine, busy or
not: a pass over n tokens takes what the curve says, with the noise of real machines, and the code
that chooses is the program's own. The curves were measured with SmolLM2-135M on two cores; `gpu` is
an example of a flat one. Prompts of odd number in their workload are for tuning, the others held
out. For every method the table shows the geometric mean of the speed-up over plain decoding, the
worst prompt, and what was accepted of what was drafted; `hindsight` is the fastest of all methods
but `auto`, chosen for each prompt.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from localspec.decoding.chain import BestDrafter, ChainDrafter
from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.decoding.protocols import NO_DRAFT, DraftSampler, Policy, Round
from localspec.decoding.sampling import SamplingSettings

CURVES_MS: dict[str, dict[int, float]] = {
    "f32": {1: 19.0, 2: 28.0, 4: 31.0, 8: 44.0, 17: 69.0},
    "q4_0": {1: 6.9, 2: 12.0, 4: 16.0, 8: 22.0, 17: 44.0},
    "q4_1": {1: 8.5, 2: 17.0, 4: 27.0, 8: 45.0, 17: 78.0},
    "gpu": {1: 20.0, 2: 20.2, 4: 20.5, 8: 21.0, 17: 23.0},
}
"""Milliseconds of a target pass by width; between them linear."""
DRAFT_CURVE = "q4_0"
"""What the draft model's passes cost."""
OWN_PLAIN_S, OWN_S = 0.0001, 0.0003
"""Python's time in a plain round, and in one that may draft: what the policies add was measured."""
NOISE = 0.03
HICCUPS = 0.01
"""Share of the passes that take twice as long."""
_ASTRAY = (0, 0.75)
"""What the draft model says behind a token that the target did not say."""
_MANY_TOKENS = 1 << 30


@dataclass(slots=True)
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


class Machine:
    """Times of passes: the curve, a little noise, now and then a hiccup."""

    def __init__(self, curve: str, seed: str) -> None:
        self._curve = CostCurve({n: ms / 1e3 for n, ms in CURVES_MS[curve].items()})
        self._random = random.Random(seed)

    def seconds(self, width: int) -> float:
        factor = max(0.8, self._random.gauss(1.0, NOISE))
        return self._curve.seconds(width) * factor * (1 + (self._random.random() < HICCUPS))


@dataclass(slots=True)
class RecordedDraft:
    """`DraftModel` that says what was recorded, and takes its time on the clock."""

    record: dict[str, Any]
    clock: Clock
    machine: Machine
    n_ctx: int = 1 << 20
    held: list[int] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        return len(self.held)

    def mark(self) -> None:
        """It can always go back."""

    def evaluate(self, tokens: Sequence[int]) -> None:
        self.held.extend(tokens)
        self.clock.seconds += self.machine.seconds(len(tokens))

    def rollback(self, n_tokens: int) -> None:
        del self.held[n_tokens:]

    def best(self) -> tuple[int, float]:
        begun = len(self.record["prompt"])
        text = self.record["prompt"] + self.record["answer"]
        held, guesses = self.held, self.record["guesses"]
        parted = next(
            (at for at in range(begun, len(held)) if at >= len(text) or held[at] != text[at]),
            len(held),
        )
        if parted - begun >= len(guesses):
            return _ASTRAY
        # Behind a wrong guess nothing is recorded, and whatever it says there will be rejected.
        token, probability = guesses[parted - begun] if parted == len(held) else _ASTRAY
        return int(token), float(probability)

    def sampler(self, settings: SamplingSettings, n_vocab: int) -> DraftSampler:
        raise ValueError("recorded answers are greedy")


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy is made of, for one answer on one machine."""

    cost: CostCurve
    clock: Clock
    draft: ModelDrafter | None
    draft_max: int

    def ngram(self) -> BestDrafter:
        return BestDrafter([NgramDrafter()])


def _auto(setup: Setup) -> Policy:
    costly = [setup.draft] if setup.draft else []
    most, clock = setup.draft_max, setup.clock
    return Controller([setup.ngram()], costly, cost=setup.cost, draft_max=most, clock=clock)


def _ngram(setup: Setup) -> Policy:
    return Controller(
        [setup.ngram()], cost=setup.cost, draft_max=setup.draft_max, clock=setup.clock
    )


def _fixed_ngram(length: int) -> Callable[[Setup], Policy]:
    return lambda setup: FixedPolicy(ChainDrafter([setup.ngram()]), length)


def _fixed_model(length: int) -> Callable[[Setup], Policy]:
    return lambda setup: FixedPolicy(_drafter(setup), length)


def _chain(length: int) -> Callable[[Setup], Policy]:
    return lambda setup: FixedPolicy(ChainDrafter([setup.ngram(), _drafter(setup)]), length)


def _drafter(setup: Setup) -> ModelDrafter:
    assert setup.draft is not None
    return setup.draft


METHODS: dict[str, Callable[[Setup], Policy]] = {
    "plain": lambda setup: PlainPolicy(),
    "auto": _auto,
    "ngram": _ngram,
    **{f"ngram@{length}": _fixed_ngram(length) for length in (2, 4, 8)},
}
WITH_MODEL: dict[str, Callable[[Setup], Policy]] = {
    "model": _fixed_model(16),
    **{f"model@{length}": _fixed_model(length) for length in (2, 4, 8)},
    **{f"auto@{length}": _chain(length) for length in (4, 8)},
}


@dataclass(slots=True)
class Replayed:
    """One answer by one method."""

    seconds: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


def replay(
    record: dict[str, Any],
    curve: str,
    make: Callable[[Setup], Policy],
    *,
    seed: int = 0,
    n_tokens: int = 128,
    draft_max: int = 16,
    has_model: bool | None = None,
) -> Replayed:
    """Decode the first `n_tokens` tokens of a recorded answer again."""
    machine = Machine(curve, f"{record['name']}|{seed}")
    clock = Clock()
    # Probed at load, so the controller knows the curve without its noise but not exactly.
    known = {n: min(machine.seconds(n) for _ in range(3)) for n in (1, 2, 4, 8, 16)}
    known[1 + draft_max] = min(machine.seconds(1 + draft_max) for _ in range(3))
    cost = CostCurve(known, max_width=1 + draft_max)
    draft = None
    if "guesses" in record if has_model is None else has_model:
        model = RecordedDraft(record, clock, Machine(DRAFT_CURVE, f"draft|{seed}"))
        draft = ModelDrafter(model, n_vocab=_MANY_TOKENS, draft_max=draft_max)
    policy = make(Setup(cost, clock, draft, draft_max))
    answer = record["answer"][:n_tokens]
    policy.begin(record["prompt"] + answer[:1])
    begun = clock.seconds
    done = Replayed()
    at = 1
    while at < len(answer):
        before = clock.seconds
        room = len(answer) - at - 1
        draft_now = policy.propose(room).first(room) if room > 0 else NO_DRAFT
        is_resting = isinstance(policy, Controller) and policy.is_resting
        own_s = OWN_PLAIN_S if is_resting or isinstance(policy, PlainPolicy) else OWN_S
        proposed = clock.seconds
        accepted = 0
        while accepted < len(draft_now) and draft_now.tokens[accepted] == answer[at + accepted]:
            accepted += 1
        kept = tuple(answer[at : at + accepted + 1])
        pass_s = machine.seconds(1 + len(draft_now))
        clock.seconds += pass_s + own_s
        policy.observe(
            Round(
                tokens=kept,
                accepted=accepted,
                drafted=len(draft_now),
                source=draft_now.source,
                draft=draft_now,
                propose_s=proposed - before + (own_s - OWN_PLAIN_S) / 2.5,
                verify_s=pass_s,
                rollback_s=0.0,
            )
        )
        at += len(kept)
        done.rounds += 1
        done.drafted += len(draft_now)
        done.accepted += accepted
    done.seconds = clock.seconds - begun
    return done


def in_half(records: Sequence[dict[str, Any]], half: str) -> list[dict[str, Any]]:
    """`tuning`, `held-out` or `both`: every other prompt of each workload."""
    seen: dict[str, int] = {}
    chosen = []
    for record in records:
        number = seen[record["workload"]] = seen.get(record["workload"], 0) + 1
        if half == "both" or (half == "tuning") == (number % 2 == 1):
            chosen.append(record)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("recordings", nargs="+", metavar="CURVE=FILE")
    parser.add_argument("--half", choices=["tuning", "held-out", "both"], default="both")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draft-max", type=int, default=16)
    parser.add_argument("--prompts", action="store_true", help="a line for every prompt")
    options = parser.parse_args()
    for argument in options.recordings:
        curve, _, path = argument.partition("=")
        lines = Path(path).read_text("utf-8").splitlines()
        records = in_half([json.loads(line) for line in lines], options.half)
        _report(curve, [r for r in records if len(r["answer"]) > 16], options)


def _report(curve: str, records: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    methods = {**METHODS, **(WITH_MODEL if "guesses" in records[0] else {})}
    runs: dict[str, dict[str, Replayed]] = {name: {} for name in methods}
    for name, make in methods.items():
        for record in records:
            total = runs[name][record["name"]] = Replayed()
            for seed in range(options.seeds):
                run = replay(
                    record,
                    curve,
                    make,
                    seed=seed,
                    n_tokens=options.tokens,
                    draft_max=options.draft_max,
                )
                total.seconds += run.seconds
                total.rounds += run.rounds
                total.drafted += run.drafted
                total.accepted += run.accepted
    plain = runs["plain"]
    gains = {
        name: {prompt: plain[prompt].seconds / run.seconds for prompt, run in found.items()}
        for name, found in runs.items()
    }
    rivals = [name for name in methods if name != "auto"]
    gains["hindsight"] = {prompt: max(gains[name][prompt] for name in rivals) for prompt in plain}
    print(f"{curve}: {len(records)} prompts ({options.half}), {options.tokens} tokens")
    for name, gain in gains.items():
        worst = min(gain, key=lambda prompt: gain[prompt])
        line = (
            f"  {name:10} {geometric_mean(gain.values()):.3f}  worst {gain[worst]:.3f} {worst:16}"
        )
        if name in runs:
            drafted = sum(run.drafted for run in runs[name].values())
            accepted = sum(run.accepted for run in runs[name].values())
            rounds = sum(run.rounds for run in runs[name].values())
            line += f" accepted {accepted}/{drafted}, {1 + accepted / rounds:.2f} tokens per round"
        print(line)
    if options.prompts:
        for prompt in sorted(plain, key=lambda p: gains["auto"][p] / gains["hindsight"][p]):
            best = max(rivals, key=lambda name: gains[name][prompt])
            print(
                f"    {prompt:18} auto {gains['auto'][prompt]:.3f}  ngram "
                f"{gains['ngram'][prompt]:.3f}  best {gains[best][prompt]:.3f} {best}"
            )


if __name__ == "__main__":
    main()
