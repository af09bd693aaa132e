"""Runs every method on every prompt, interleaved, and reports each answer as it is measured.

For each repeat and each prompt the methods take turns (A B C, A B C, ...), so that a machine which
becomes slower while it warms up slows all of them alike; who begins moves on by one with each
prompt and repeat, so that nobody always follows the same method. Every cold answer starts with
empty caches: replayed prompts would make an n-gram drafter look several times faster than it is.
Warm runs come after all cold ones and are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.bench.contestants import Contestant, Question
from localspec.bench.samples import Reply, Sample
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.decoding.sampling import GREEDY, SamplingSettings
from localspec.engine.settings import ChatMessage
from localspec.errors import Interrupted, UsageError

WARM_UP_TEXT = "Count from one to twenty in words, separated by commas."


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure and how often."""

    workloads: tuple[Workload, ...]
    max_tokens: int = 128
    """Tokens of each answer at most; an answer that the model ends earlier stays shorter."""
    repeats: int = 3
    """How often each method answers each prompt."""
    warm: bool = False
    """Whether the methods that keep caches answer once more with what they have learned."""
    sampling: SamplingSettings = GREEDY
    raw: bool = False
    """Prompts as they stand, without the chat template."""

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.max_tokens < 2:
            raise UsageError(
                f"{self.repeats} repeats of {self.max_tokens} tokens cannot be measured",
                hint="at least one repeat and two tokens",
            )
        if not any(workload.prompts for workload in self.workloads):
            raise UsageError("there is no prompt to measure", hint="name a workload or --prompts")


@dataclass(frozen=True, slots=True)
class Running:
    """An answer is about to be made."""

    phase: str
    """`warm-up`, `history`, `measure` or `warm`."""
    method: str
    workload: str
    prompt: str
    repeat: int
    done: int
    total: int
    """Answers that count, `done` of them finished."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An answer that counts was measured."""

    sample: Sample
    done: int
    total: int


Progress = Running | Measured


class BenchRun:
    """One benchmark. `samples` grows while `run()` works; `cancel()` ends it after the next token.

    contestants: the baseline first; all answer the same questions.
    """

    def __init__(
        self,
        plan: Plan,
        contestants: Sequence[Contestant],
        on_progress: Callable[[Progress], None] = lambda event: None,
    ) -> None:
        if not contestants:
            raise UsageError("there is no method to measure")
        names = [contestant.name for contestant in contestants]
        if len(set(names)) < len(names):
            raise UsageError(f"a method is named twice: {', '.join(names)}")
        self.plan = plan
        self.contestants = tuple(contestants)
        self.samples: list[Sample] = []
        self.conversations: dict[str, Question] = {}
        """The question that was put for each prompt id, earlier answers included."""
        self._on_progress = on_progress
        self._cancelled = False
        prompts = [prompt for workload in plan.workloads for prompt in workload.prompts]
        self._prompts = tuple(prompts)
        self._warm = tuple(c for c in contestants if plan.warm and c.has_warm_runs)
        self.total = len(prompts) * (len(contestants) * plan.repeats + len(self._warm))

    def cancel(self) -> None:
        """Stop soon; what has been measured stays in `samples`."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    async def run(self) -> tuple[Sample, ...]:
        """Measure everything; after `cancel()`, what was finished by then."""
        try:
            await self._warm_up()
            await self._prepare()
            for repeat in range(self.plan.repeats):
                for index, prompt in enumerate(self._prompts):
                    for contestant in _rotated(self.contestants, index + repeat):
                        await self._measure(contestant, prompt, repeat)
            for prompt in self._prompts:
                for contestant in self._warm:
                    await self._measure_warm(contestant, prompt)
        except Interrupted:
            if not self._cancelled:
                raise
        return tuple(self.samples)

    async def _warm_up(self) -> None:
        question = self._question((ChatMessage("user", WARM_UP_TEXT),))
        for contestant in self.contestants:
            self._tell("warm-up", contestant, None, 0)
            await self._answer(contestant, question, fresh_caches=True)

    async def _prepare(self) -> None:
        """Let the baseline answer all turns but the last, once for everybody."""
        baseline = self.contestants[0]
        for prompt in self._prompts:
            messages: list[ChatMessage] = []
            for turn in prompt.turns[:-1]:
                messages.append(ChatMessage("user", turn))
                self._tell("history", baseline, prompt, 0)
                reply = await self._answer(
                    baseline, self._question(tuple(messages)), fresh_caches=True
                )
                messages.append(ChatMessage("assistant", reply.text))
            messages.append(ChatMessage("user", prompt.turns[-1]))
            self.conversations[prompt.id] = self._question(tuple(messages))

    async def _measure(self, contestant: Contestant, prompt: BenchPrompt, repeat: int) -> None:
        self._tell("measure", contestant, prompt, repeat)
        question = self.conversations[prompt.id]
        reply = await self._answer(contestant, question, fresh_caches=True)
        self._keep(contestant, prompt, repeat, reply, warm=False)

    async def _measure_warm(self, contestant: Contestant, prompt: BenchPrompt) -> None:
        """Answer twice with kept caches; the second time counts."""
        question = self.conversations[prompt.id]
        self._tell("warm", contestant, prompt, 0)
        await self._answer(contestant, question, fresh_caches=False)
        self._tell("warm", contestant, prompt, 1)
        reply = await self._answer(contestant, question, fresh_caches=False)
        self._keep(contestant, prompt, 0, reply, warm=True)

    async def _answer(
        self, contestant: Contestant, question: Question, *, fresh_caches: bool
    ) -> Reply:
        if self._cancelled:
            raise Interrupted("the benchmark was stopped")
        return await contestant.answer(
            question, fresh_caches=fresh_caches, stopped=lambda: self._cancelled
        )

    def _question(self, messages: tuple[ChatMessage, ...]) -> Question:
        return Question(messages, self.plan.max_tokens, self.plan.sampling, self.plan.raw)

    def _keep(
        self, contestant: Contestant, prompt: BenchPrompt, repeat: int, reply: Reply, *, warm: bool
    ) -> None:
        sample = Sample(
            contestant.name, prompt.workload, prompt.id, repeat, len(self.samples), warm, reply
        )
        self.samples.append(sample)
        self._on_progress(Measured(sample, len(self.samples), self.total))

    def _tell(
        self, phase: str, contestant: Contestant, prompt: BenchPrompt | None, repeat: int
    ) -> None:
        workload, name = (prompt.workload, prompt.id) if prompt else ("", "")
        self._on_progress(
            Running(phase, contestant.name, workload, name, repeat, len(self.samples), self.total)
        )


def _rotated(contestants: tuple[Contestant, ...], by: int) -> tuple[Contestant, ...]:
    shift = by % len(contestants)
    return contestants[shift:] + contestants[:shift]
