"""The end of a benchmark in words and as JSON; tables and charts have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from localspec.bench.differences import Difference
from localspec.bench.machine import Machine
from localspec.bench.results import Comparison, GroupResult, PromptResult, Versus
from localspec.bench.workloads import Workload

_DRAFTERS = {
    "model": "the draft model",
    "ngram": "the n-gram drafter",
    "lookup": "the lookup cache",
}


def sentence(comparison: Comparison, method: str = "auto") -> str:
    """What the run showed, in words.

    method: the one to speak of; the fastest is taken where it was not measured.
    """
    group = comparison.of(method) or _fastest(comparison)
    if group is None or group.speedup is None or group.worst is None:
        return "No answer was long enough to be timed."
    text = (
        f"On this machine {group.method} is {group.speedup:.2f}× plain on average "
        f"and {group.worst:.2f}× at worst"
    )
    if group.worst_prompt and group.timed > 1:
        text += f" ({group.worst_prompt})"
    source = _main_source(comparison, group)
    text += f"; most of it comes from {source}." if source else "."
    return f"{text} {difference_words(comparison)}"


def difference_words(comparison: Comparison) -> str:
    """One sentence on which answers were not plain decoding's."""
    others = [p for p in comparison.prompts if p.method != comparison.baseline]
    parted = [p for p in others if p.difference is not None]
    if not others:
        return "There was nothing to compare with plain decoding."
    if not parted:
        return "Every answer was identical to plain decoding's."
    first = min(parted, key=lambda p: p.difference.index if p.difference else 0)
    assert first.difference is not None
    methods = ", ".join(dict.fromkeys(p.method for p in parted))
    return (
        f"{len(parted)} of {len(others)} answers part from plain decoding's ({methods}), "
        f"the earliest at token {first.difference.index + 1} of {first.prompt}"
        f"{_tie(first.difference)}."
    )


def versus_words(versus: Versus) -> str:
    """One sentence on one method against another."""
    return (
        f"Against {versus.rival}, {versus.method} is {versus.geomean:.2f}× as fast on average, "
        f"{versus.worst_workload:.2f}× on its worst workload ({versus.worst_workload_name}) and "
        f"{versus.worst:.2f}× on its worst prompt ({versus.worst_prompt})."
    )


def as_json(
    comparison: Comparison,
    *,
    machine: Machine,
    model: str,
    workloads: Sequence[Workload],
    settings: dict[str, Any],
    finished: bool,
    warm: Comparison | None = None,
    versus: Sequence[Versus] = (),
) -> dict[str, Any]:
    """The document of `bench --json`.

    settings: what was asked for. finished: False when the run was stopped before its end.
    warm: the warm runs, never mixed with the others.
    """
    return {
        "machine": machine.as_dict(),
        "model": model,
        "settings": settings,
        "finished": finished,
        "workloads": [
            {"name": w.name, "title": w.title, "version": w.version, "prompts": len(w.prompts)}
            for w in workloads
        ],
        "results": [_group_json(comparison, group) for group in comparison.groups],
        "summary": [_summary_json(group) for group in comparison.summary],
        "warm": [_group_json(warm, group) for group in warm.groups] if warm else [],
        "versus": [asdict(item) for item in versus],
        "sentence": sentence(comparison),
    }


def _group_json(comparison: Comparison, group: GroupResult) -> dict[str, Any]:
    prompts = [
        p for p in comparison.prompts if p.method == group.method and p.workload == group.workload
    ]
    return {
        "method": group.method,
        "workload": group.workload,
        "decode_tokens_per_second": group.decode_tokens_per_second,
        "speedup": group.speedup,
        "speedup_worst": group.worst,
        "speedup_best": group.best,
        "noise": group.noise,
        "acceptance_rate": group.acceptance_rate,
        "tokens_per_round": group.tokens_per_round,
        "accepted_per_position": list(group.accepted_per_position),
        "drafted_per_position": list(group.drafted_per_position),
        "propose_share": group.propose_share,
        "verify_share": group.verify_share,
        "rest_share": group.rest_share,
        "predicted": asdict(group.prediction) if group.prediction else None,
        "by_drafter": {name: asdict(counts) for name, counts in group.by_drafter.items()},
        "identical": group.identical == group.prompts,
        "first_difference": asdict(group.differences[0]) if group.differences else None,
        "prompts": [_prompt_json(prompt) for prompt in prompts],
    }


def _prompt_json(prompt: PromptResult) -> dict[str, Any]:
    return {
        "id": prompt.prompt,
        "decode_tokens": prompt.decode_tokens,
        "decode_tokens_per_second": prompt.rate,
        "decode_tokens_per_second_low": prompt.rate_low,
        "decode_tokens_per_second_high": prompt.rate_high,
        "speedup": prompt.speedup,
        "speedup_low": prompt.speedup_low,
        "speedup_high": prompt.speedup_high,
        "drafted": prompt.drafted,
        "accepted": prompt.accepted,
        "identical": prompt.identical,
        "first_difference": asdict(prompt.difference) if prompt.difference else None,
    }


def _summary_json(group: GroupResult) -> dict[str, Any]:
    return {
        "method": group.method,
        "geomean_speedup": group.speedup,
        "worst_speedup": group.worst,
        "worst_prompt": group.worst_prompt,
        "best_speedup": group.best,
        "best_prompt": group.best_prompt,
        "decode_tokens_per_second": group.decode_tokens_per_second,
        "acceptance_rate": group.acceptance_rate,
        "tokens_per_round": group.tokens_per_round,
        "predicted_speedup": group.prediction.speedup if group.prediction else None,
        "prompts": group.prompts,
        "timed": group.timed,
        "identical": group.identical,
    }


def _fastest(comparison: Comparison) -> GroupResult | None:
    others = [
        group
        for group in comparison.summary
        if group.method != comparison.baseline and group.speedup is not None
    ]
    return max(others, key=lambda group: group.speedup or 0.0, default=None)


def _main_source(comparison: Comparison, group: GroupResult) -> str:
    """Which drafter, and which workload gains most; empty where nothing was gained."""
    if group.speedup is None or group.speedup < 1.05:
        return ""
    drafter = max(group.by_drafter, key=lambda name: group.by_drafter[name].accepted, default=None)
    if drafter is None or not group.by_drafter[drafter].accepted:
        return ""
    text = _DRAFTERS.get(drafter, f"the drafter {drafter}")
    mine = [g for g in comparison.groups if g.method == group.method and g.speedup is not None]
    if len(mine) > 1:
        text += f" on {max(mine, key=lambda g: g.speedup or 0.0).workload}"
    return text


def _tie(difference: Difference) -> str:
    if difference.plain_logit is None or difference.logit is None:
        return ""
    return f" (logits {difference.plain_logit:.3f} and {difference.logit:.3f})"
