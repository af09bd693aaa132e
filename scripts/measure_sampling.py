"""How many of a draft model's tokens are kept at a temperature, against what the theory predicts.

    python scripts/measure_sampling.py TARGET.gguf DRAFT.gguf [--temp 0.8] [--tokens 100]

For the same prompts and seeds, the draft's tokens are once drawn from its own distribution q and
kept by p / q (speculative sampling), and once its likeliest tokens are kept where the target draws
the same (sample-and-match). A position counts when the target judged it: those behind a rejection
do not. Predicted are the mean of sum(min(p, q)) and, for sample-and-match, the mean of p of the
draft's likeliest token, over the same positions. Speed plays no part, so a busy machine does no
harm.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from localspec.decoding.distribution import Distribution, overlap
from localspec.decoding.loop import SpeculativeLoop
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.policies import FixedPolicy
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.loading import Loaded, load_draft, load_target
from localspec.engine.prompt import PromptBuilder
from localspec.engine.sequence import DraftSequence, TargetSequence
from localspec.engine.settings import ChatMessage, EngineSettings, GenerateRequest, ModelSettings
from localspec.llama import library
from localspec.llama.batch import Outputs
from localspec.llama.cancel import CancelFlag
from localspec.llama.context import Context
from localspec.llama.log import NativeLog
from localspec.llama.sampler import Sampler

PROMPTS = (
    "Why is the sky blue?",
    "Write a Python class for a binary search tree with insert, find and delete methods.",
    "Tell me a short story about a lighthouse keeper who is afraid of the sea.",
    "Give me a recipe for a simple vegetable soup, step by step.",
    "Explain to a child how a bicycle stays upright.",
)


@dataclass(slots=True)
class Counts:
    judged: int = 0
    """Draft tokens that the target judged."""
    kept: int = 0
    drafted: int = 0
    """Those behind a rejection included."""
    predicted: list[float] = field(default_factory=list)
    """For each judged position the probability that its token is kept."""
    matched: list[float] = field(default_factory=list)
    """For each drawn token the target's probability of the draft's likeliest one."""

    def summary(self) -> dict[str, float]:
        return {
            "judged": self.judged,
            "drafted": self.drafted,
            "acceptance": self.kept / max(1, self.judged),
            "standard_error": sum(p * (1 - p) for p in self.predicted) ** 0.5 / max(1, self.judged),
            "predicted": sum(self.predicted) / max(1, self.judged),
            "sample_and_match_here": sum(self.matched) / max(1, self.judged),
        }


class Observed(TargetSequence):
    """Notes what is to be expected of each draft token before it is judged."""

    def __init__(self, context: Context, sampler: Sampler, counts: Counts) -> None:
        super().__init__(context, sampler)
        self.counts = counts
        self.sure: Sequence[int] = ()
        """Sure draft tokens of the present round."""

    def judge(self, row: int, token: int, proposal: Distribution) -> int:
        target = self._sampler.distribution(self._context, row)
        likeliest = int(proposal.ids[proposal.probabilities.argmax()])
        self.counts.predicted.append(overlap(target, proposal))
        self.counts.matched.append(target.probability_of(likeliest))
        return super().judge(row, token, proposal)

    def sample(self, row: int) -> int:
        if row < len(self.sure):
            target = self._sampler.distribution(self._context, row)
            self.counts.predicted.append(target.probability_of(self.sure[row]))
        return super().sample(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--temp", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=SamplingSettings().top_k)
    parser.add_argument("--top-p", type=float, default=SamplingSettings().top_p)
    parser.add_argument("--min-p", type=float, default=SamplingSettings().min_p)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--draft-max", type=int, default=4)
    parser.add_argument("--p-min", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=0, help="1 on a machine that is busy")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    settings = EngineSettings(
        target=ModelSettings(given.target),
        draft=ModelSettings(given.draft),
        n_ctx=1024,
        draft_max=given.draft_max,
        p_min=given.p_min,
        n_threads=given.threads,
    )
    sampling = SamplingSettings(
        temp=given.temp, top_k=given.top_k, top_p=given.top_p, min_p=given.min_p
    )
    log, cancel = NativeLog(), CancelFlag()
    library.start()
    target = load_target(settings, log, cancel, lambda event: None)
    assert settings.draft is not None
    draft = load_draft(settings, settings.draft, target, log, cancel, lambda event: None)
    counts = {"p/q": Counts(), "sample-and-match": Counts()}
    for number, prompt in enumerate(PROMPTS):
        # No two answers share a seed: the same dice would make their counts depend on each other.
        for seed in range(number * given.seeds, (number + 1) * given.seeds):
            for name, found in counts.items():
                drafter = ModelDrafter(
                    DraftSequence(draft.context),
                    n_vocab=target.context.n_vocab,
                    p_min=settings.p_min,
                    draft_max=settings.draft_max,
                )
                seeded = replace(sampling, seed=seed)
                drafter.sample_as(seeded if name == "p/q" else None)
                draft.context.clear()
                _answer(target, drafter, prompt, seeded, given.tokens, found)
                drafter.close()
                print(".", end="", file=sys.stderr, flush=True)
    figures = {name: found.summary() for name, found in counts.items()}
    print(file=sys.stderr)
    draft.close()
    target.close()
    if given.json:
        print(json.dumps({"sampling": asdict(sampling), "results": figures}, indent=1))
        return
    print(f"temperature {given.temp}, {len(PROMPTS)} prompts x {given.seeds} seeds")
    for name, of in figures.items():
        print(
            f"{name:17} acceptance {of['acceptance']:.4f} ± {of['standard_error']:.4f}, "
            f"predicted {of['predicted']:.4f}, {of['judged']} positions"
        )
    here = figures["p/q"]["sample_and_match_here"]
    print(f"at the positions of p/q, sample-and-match would keep {here:.4f}")


def _answer(
    loaded: Loaded,
    drafter: ModelDrafter,
    prompt: str,
    sampling: SamplingSettings,
    n_tokens: int,
    counts: Counts,
) -> None:
    """One answer; adds to `counts`."""
    context = loaded.context
    request = GenerateRequest(messages=(ChatMessage("user", prompt),))
    tokens, _ = PromptBuilder(loaded.model).build(request)
    sampler = Sampler(loaded.model.vocabulary, sampling, context.n_ctx)
    context.clear()
    context.evaluate(tokens[:-1], Outputs.NONE)
    sampler.accept_prompt(tokens)
    observed = Observed(context, sampler, counts)
    loop = SpeculativeLoop(observed, FixedPolicy(drafter, drafter.draft_max))
    loop.start(tokens)
    left = n_tokens
    while left > 0:
        proposed = loop.propose(left)
        observed.sure = () if drafter.draws else proposed[1:]
        observed.evaluate(proposed)
        outcome = loop.settle()
        judged = min(outcome.drafted, len(outcome.tokens))
        counts.judged += judged
        # An end token that was drafted counts as kept here, though it is its round's bonus token.
        pairs = zip(outcome.tokens, outcome.draft.tokens, strict=False)
        counts.kept += sum(kept == token for kept, token in pairs)
        counts.drafted += outcome.drafted
        left -= len(outcome.tokens)
        if observed.is_end(outcome.tokens[-1]):
            break
    sampler.close()


if __name__ == "__main__":
    main()
