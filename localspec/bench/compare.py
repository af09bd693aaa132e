"""From measured answers to the figures of `results`; its conventions are stated there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean, median

from localspec.bench.differences import Difference, first_difference
from localspec.bench.methods import PLAIN_NAME
from localspec.bench.results import Comparison, GroupResult, PromptResult
from localspec.bench.samples import Reply, Sample
from localspec.bench.textbook import predict
from localspec.events import DrafterCounts, Speculation

SHORTEST = 16
"""Answers with fewer decoded tokens are not timed: one slow pass would decide the ratio."""


def compare(
    samples: Iterable[Sample],
    *,
    shortest: int = SHORTEST,
    known: Mapping[Difference, Difference] | None = None,
) -> Comparison:
    """Compare cold samples, or a `warm_view`; never both at once.

    samples: those of plain decoding are the baseline, and the first of them names it.
    shortest: decoded tokens below which an answer is not timed.
    known: differences that have meanwhile been given their logits.
    Raises ValueError when cold and warm samples are mixed.
    """
    samples = list(samples)
    if len({sample.warm for sample in samples}) > 1:
        raise ValueError("cold and warm samples cannot be compared with each other")
    methods = tuple(dict.fromkeys(_baseline_first(samples)))
    workloads = tuple(dict.fromkeys(sample.workload for sample in samples))
    repeats = len({sample.repeat for sample in samples})
    replies: dict[tuple[str, str], dict[int, Reply]] = {}
    place: dict[str, str] = {}
    for sample in samples:
        place.setdefault(sample.prompt, sample.workload)
        replies.setdefault((sample.method, sample.prompt), {})[sample.repeat] = sample.reply
    prompts = tuple(
        _prompt_result(method, place[prompt], prompt, own, plain, shortest, known or {})
        for method in methods
        for prompt in place
        if (own := replies.get((method, prompt))) and (plain := replies.get((methods[0], prompt)))
    )
    noise = _noise(prompts, methods[0]) if repeats > 1 else {}
    plain_token_s = {p.prompt: 1.0 / p.rate for p in prompts if p.method == methods[0] and p.rate}
    groups = []
    summary = []
    for method in methods:
        mine = [p for p in prompts if p.method == method]
        if mine:
            summary.append(_group(method, "", mine, plain_token_s, noise))
        for workload in workloads:
            part = [p for p in mine if p.workload == workload]
            if part:
                groups.append(_group(method, workload, part, plain_token_s, noise))
    return Comparison(methods, workloads, prompts, tuple(groups), tuple(summary))


def warm_view(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """The warm samples with plain decoding's cold ones as their baseline: plain keeps no caches."""
    samples = list(samples)
    warm = [sample for sample in samples if sample.warm]
    plain = [s for s in samples if not s.warm and s.method == PLAIN_NAME and s.repeat == 0]
    return (*(replace(sample, warm=True) for sample in plain), *warm) if warm else ()


def best_of(samples: Iterable[Sample], names: Collection[str], label: str) -> tuple[Sample, ...]:
    """For each prompt the cold samples of the fastest of `names`, all of them renamed to `label`:
    the best setting chosen with hindsight, as one more method to compare with."""
    rates: dict[str, dict[str, list[float]]] = {}
    own = [sample for sample in samples if sample.method in names and not sample.warm]
    for sample in own:
        rates.setdefault(sample.prompt, {}).setdefault(sample.method, []).append(sample.reply.rate)
    fastest = {
        prompt: max((median(measured), name) for name, measured in by_method.items())[1]
        for prompt, by_method in rates.items()
    }
    return tuple(
        replace(sample, method=label) for sample in own if sample.method == fastest[sample.prompt]
    )


def _baseline_first(samples: Sequence[Sample]) -> list[str]:
    names = [sample.method for sample in samples]
    return [PLAIN_NAME, *names] if PLAIN_NAME in names else names


def _prompt_result(
    method: str,
    workload: str,
    prompt: str,
    own: Mapping[int, Reply],
    plain: Mapping[int, Reply],
    shortest: int,
    known: Mapping[Difference, Difference],
) -> PromptResult:
    first = own[min(own)]
    first_plain = plain[min(plain)]
    rates = [reply.rate for reply in own.values()]
    ratios = [
        reply.rate / plain[repeat].rate
        for repeat, reply in own.items()
        if repeat in plain and plain[repeat].rate > 0 and reply.rate > 0
    ]
    timed = min(first.decode_tokens, first_plain.decode_tokens) >= shortest and bool(ratios)
    differences = (
        first_difference(prompt, plain.get(repeat, first_plain), own[repeat])
        for repeat in sorted(own)
    )
    difference = next((found for found in differences if found is not None), None)
    return PromptResult(
        method=method,
        workload=workload,
        prompt=prompt,
        decode_tokens=first.decode_tokens,
        rate=median(rates),
        rate_low=min(rates),
        rate_high=max(rates),
        speedup=median(ratios) if timed else None,
        speedup_low=min(ratios) if timed else None,
        speedup_high=max(ratios) if timed else None,
        difference=known.get(difference, difference) if difference else None,
        total=_sum(method, [reply.speculation for reply in own.values()]),
        drafted=sum(reply.drafted for reply in own.values()),
        accepted=sum(reply.accepted for reply in own.values()),
        decode_s=sum(reply.decode_s for reply in own.values()),
    )


def _group(
    method: str,
    workload: str,
    prompts: Sequence[PromptResult],
    plain_token_s: Mapping[str, float],
    noise: Mapping[tuple[str, str], float],
) -> GroupResult:
    ratios = [(p.speedup, p) for p in prompts if p.speedup is not None]
    timed = [p for _, p in ratios]
    worst = min(ratios, key=lambda pair: pair[0], default=None)
    best = max(ratios, key=lambda pair: pair[0], default=None)
    tokens = sum(p.decode_tokens for p in timed)
    seconds = sum(p.decode_tokens / p.rate for p in timed)
    total = _sum(method, [p.total for p in timed])
    decode_s = sum(p.decode_s for p in timed)
    drafted = sum(p.drafted for p in timed)
    plain_seconds = sum(p.decode_tokens * plain_token_s.get(p.prompt, 0.0) for p in timed)
    spreads = [noise[method, p.prompt] for p in timed if (method, p.prompt) in noise]
    shares = (total.propose_s / decode_s, total.verify_s / decode_s) if total and decode_s else None
    return GroupResult(
        method=method,
        workload=workload,
        prompts=len(prompts),
        timed=len(timed),
        decode_tokens_per_second=tokens / seconds if seconds else 0.0,
        speedup=geometric_mean([ratio for ratio, _ in ratios]) if ratios else None,
        worst=worst[0] if worst else None,
        worst_prompt=worst[1].prompt if worst else "",
        best=best[0] if best else None,
        best_prompt=best[1].prompt if best else "",
        noise=median(spreads) if spreads else None,
        acceptance_rate=sum(p.accepted for p in timed) / drafted if drafted else 0.0,
        tokens_per_round=total.tokens_per_round if total else None,
        accepted_per_position=total.accepted_per_position if total else (),
        drafted_per_position=total.drafted_per_position if total else (),
        propose_share=shares[0] if shares else None,
        verify_share=shares[1] if shares else None,
        rest_share=1.0 - sum(shares) if shares else None,
        prediction=predict(total, plain_seconds / tokens) if total and tokens else None,
        identical=sum(p.identical for p in prompts),
        differences=tuple(p.difference for p in prompts if p.difference is not None),
        by_drafter=dict(total.by_drafter) if total else {},
    )


def _noise(prompts: Iterable[PromptResult], baseline: str) -> dict[tuple[str, str], float]:
    """How far the repeats of each method and prompt lie apart, relative to their median."""
    found: dict[tuple[str, str], float] = {}
    for p in prompts:
        low, middle, high = p.speedup_low, p.speedup, p.speedup_high
        if p.method == baseline:
            # Its speed-up is 1.0 by definition; what varies is the machine.
            low, middle, high = p.rate_low, p.rate, p.rate_high
        if low is not None and middle and high is not None:
            found[p.method, p.prompt] = (high - low) / middle
    return found


def _sum(method: str, parts: Iterable[Speculation | None]) -> Speculation | None:
    """All parts added up; None when one of them is unknown or there is none."""
    parts = list(parts)
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    drafters: dict[str, DrafterCounts] = {}
    for part in known:
        for name, counts in part.by_drafter.items():
            before = drafters.get(name, DrafterCounts())
            drafters[name] = DrafterCounts(
                before.rounds + counts.rounds,
                before.drafted + counts.drafted,
                before.accepted + counts.accepted,
            )
    return Speculation(
        method,
        rounds=sum(part.rounds for part in known),
        drafted=sum(part.drafted for part in known),
        accepted=sum(part.accepted for part in known),
        accepted_per_position=_add([part.accepted_per_position for part in known]),
        drafted_per_position=_add([part.drafted_per_position for part in known]),
        propose_s=sum(part.propose_s for part in known),
        verify_s=sum(part.verify_s for part in known),
        rollback_s=sum(part.rollback_s for part in known),
        by_drafter=drafters,
    )


def _add(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    width = max((len(row) for row in rows), default=0)
    return tuple(sum(row[i] for row in rows if i < len(row)) for i in range(width))
