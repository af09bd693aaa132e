"""What a comparison consists of: frozen figures for each prompt, workload and method.

Conventions. The speed-up of a method on a prompt is the median, over the repeats, of its tokens per
second over plain decoding's in the same repeat; so a machine that drifts from one repeat to the
next cancels out. Workloads and summaries are geometric means over prompts. Answers too short to be
timed are shown but take no part in any speed-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import geometric_mean

from localspec.bench.differences import Difference
from localspec.bench.textbook import Prediction
from localspec.events import DrafterCounts, Speculation


@dataclass(frozen=True, slots=True)
class PromptResult:
    """One method on one prompt."""

    method: str
    workload: str
    prompt: str
    decode_tokens: int
    """Tokens timed in one answer."""
    rate: float
    """Median tokens per second."""
    rate_low: float
    rate_high: float
    """Slowest and fastest repeat."""
    speedup: float | None
    """Over plain decoding; None when the answer was too short to be timed."""
    speedup_low: float | None
    speedup_high: float | None
    """Lowest and highest ratio of one repeat."""
    difference: Difference | None
    """The first token that is not plain decoding's; None when the answers are identical."""
    total: Speculation | None
    """Counts and times summed over the repeats; None where the program does not tell."""
    drafted: int
    accepted: int
    decode_s: float
    """Seconds of decoding, summed over the repeats."""

    @property
    def identical(self) -> bool:
        return self.difference is None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One method over several prompts: a workload, or all of them."""

    method: str
    workload: str
    """Empty for all workloads together."""
    prompts: int
    timed: int
    """Prompts whose answers were long enough; the others are in no figure below but `identical`."""
    decode_tokens_per_second: float
    """All timed tokens over all their seconds, each prompt with its median rate."""
    speedup: float | None
    """Geometric mean over prompts; None when no prompt could be timed."""
    worst: float | None
    worst_prompt: str
    best: float | None
    best_prompt: str
    noise: float | None
    """Median over prompts of (highest − lowest) / median among the repeats: of the speed-up, or of
    plain decoding's own rate. None where there was one repeat."""
    acceptance_rate: float
    """Accepted / drafted; 0.0 when nothing was drafted."""
    tokens_per_round: float | None
    """Tokens per target pass, bonus token included; None where the program does not tell."""
    accepted_per_position: tuple[int, ...]
    drafted_per_position: tuple[int, ...]
    propose_share: float | None
    verify_share: float | None
    rest_share: float | None
    """Parts of the decoding time, together 1.0; None where the program does not tell."""
    prediction: Prediction | None
    """What the textbook formula makes of the measured acceptance and cost ratio."""
    identical: int
    """Prompts whose answer was plain decoding's to the last token."""
    differences: tuple[Difference, ...]
    by_drafter: Mapping[str, DrafterCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Versus:
    """One method against another, prompt by prompt."""

    method: str
    rival: str
    geomean: float
    """Geometric mean over prompts of its median rate over the rival's median rate."""
    worst: float
    worst_prompt: str
    worst_workload: float
    """Lowest geometric mean of a workload."""
    worst_workload_name: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that one run showed. `plain` is always the first of `methods`."""

    methods: tuple[str, ...]
    workloads: tuple[str, ...]
    prompts: tuple[PromptResult, ...]
    groups: tuple[GroupResult, ...]
    """By method, then workload."""
    summary: tuple[GroupResult, ...]
    """By method, over all prompts."""

    @property
    def baseline(self) -> str:
        return self.methods[0]

    def group(self, method: str, workload: str) -> GroupResult | None:
        found = (g for g in self.groups if g.method == method and g.workload == workload)
        return next(found, None)

    def of(self, method: str) -> GroupResult | None:
        """The summary of one method; None when it has no answer."""
        return next((g for g in self.summary if g.method == method), None)

    def differences(self) -> tuple[Difference, ...]:
        return tuple(p.difference for p in self.prompts if p.difference is not None)

    def versus(self, method: str, rival: str) -> Versus | None:
        """How `method` does against `rival` prompt by prompt; None without a prompt that both were
        timed on."""
        timed = [p for p in self.prompts if p.speedup is not None]
        rivals = {p.prompt: p.rate for p in timed if p.method == rival}
        ratios = [
            (p.rate / rivals[p.prompt], p.prompt, p.workload)
            for p in timed
            if p.method == method and p.prompt in rivals
        ]
        if not ratios:
            return None
        by_workload = {
            name: geometric_mean([ratio for ratio, _, workload in ratios if workload == name])
            for name in dict.fromkeys(workload for _, _, workload in ratios)
        }
        worst, worst_prompt, _ = min(ratios)
        worst_workload = min(by_workload, key=lambda name: by_workload[name])
        return Versus(
            method=method,
            rival=rival,
            geomean=geometric_mean([ratio for ratio, _, _ in ratios]),
            worst=worst,
            worst_prompt=worst_prompt,
            worst_workload=by_workload[worst_workload],
            worst_workload_name=worst_workload,
        )
