"""A whole benchmark from loaded engine to comparison: for the command line and the terminal UI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.bench.compare import SHORTEST, best_of, compare, warm_view
from localspec.bench.contestants import Contestant, Engine, EngineContestant
from localspec.bench.differences import with_logits
from localspec.bench.methods import PLAIN_NAME, Method
from localspec.bench.results import Comparison, Versus
from localspec.bench.runner import BenchRun, Plan, Progress
from localspec.bench.samples import Reply, Sample
from localspec.bench.server_contestants import ServerContestant, ServerSetup
from localspec.bench.server_methods import BEST
from localspec.engine.settings import EngineSettings
from localspec.errors import LocalspecError
from localspec.events import Notice

NOISY = 0.1
"""Half the spread of plain decoding's rate, relative to it, from which a result is doubtful."""


@dataclass(frozen=True, slots=True)
class Against:
    """A llama-server to measure beside the engine."""

    binary: Path
    n_ctx: int
    n_threads: int
    """What the engine really uses."""
    keep: bool
    """As `ServerSetup.keep`."""
    flash_attn: str = "auto"
    """As it was asked for: `auto` is decided by each program for itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark showed; of a stopped one, what it had shown by then."""

    samples: tuple[Sample, ...]
    comparison: Comparison
    """Over cold answers; without results when nothing was measured."""
    warm: Comparison | None
    versus: tuple[Versus, ...]
    """`auto` against every other method, the best of llama-server first where it was measured."""
    notices: tuple[Notice, ...]
    """What the engine warned of, each once, and what makes the figures doubtful."""
    finished: bool
    error: LocalspecError | None = None
    """What ended the run early, where something failed."""


class BenchSession:
    """Measures `methods` on `engine`, and llama-server where one is given. Run it once."""

    def __init__(
        self,
        engine: Engine,
        settings: EngineSettings,
        plan: Plan,
        methods: Sequence[Method],
        *,
        against: Against | None = None,
        on_progress: Callable[[Progress], None] = lambda event: None,
    ) -> None:
        """Raises UsageError when `against` is no llama-server or nothing is to be measured."""
        self._engine = engine
        self._servers: tuple[ServerContestant, ...] = ()
        if against is not None:
            setup = ServerSetup.of(
                against.binary,
                replace(settings, flash_attn=against.flash_attn),
                n_ctx=against.n_ctx,
                n_threads=against.n_threads,
                keep=against.keep,
            )
            self._servers = setup.contestants()
        self._told: dict[Notice, None] = {}
        own: list[Contestant] = [
            EngineContestant(engine, method, self._on_notice) for method in methods
        ]
        self._run = BenchRun(plan, [*own, *self._servers], on_progress)

    @property
    def total(self) -> int:
        """Answers that will be measured."""
        return self._run.total

    def cancel(self) -> None:
        """Stop soon; what has been measured is still compared."""
        self._run.cancel()

    async def run(self) -> Outcome:
        """Measure and compare. Raises what engine and servers raise before anything was measured;
        a later failure is part of the outcome, beside what was measured until then."""
        error = None
        try:
            await self._run.run()
        except LocalspecError as failure:
            if not self._run.samples:
                raise
            error = failure
        finally:
            for server in self._servers:
                server.close()
        return await self._outcome(tuple(self._run.samples), error)

    def _on_notice(self, notice: Notice) -> None:
        self._told.setdefault(notice)

    async def _outcome(self, samples: tuple[Sample, ...], error: LocalspecError | None) -> Outcome:
        cold = [sample for sample in samples if not sample.warm]
        names = [server.name for server in self._servers]
        cold += best_of(cold, names, BEST)
        shortest = min(SHORTEST, self._run.plan.max_tokens - 1)
        comparison = compare(cold, shortest=shortest)
        finished = error is None and not self._run.cancelled
        if comparison.differences() and finished:
            known = await with_logits(
                comparison.differences(),
                self._run.conversations,
                _plain_replies(cold),
                self._engine,
            )
            comparison = compare(cold, shortest=shortest, known=known)
        warm = warm_view(samples)
        return Outcome(
            samples=samples,
            comparison=comparison,
            warm=compare(warm, shortest=shortest) if warm else None,
            versus=_versus(comparison),
            notices=(*self._told, *prompt_notices(samples), *noise_notices(comparison)),
            finished=finished,
            error=error,
        )


def prompt_notices(samples: Sequence[Sample]) -> tuple[Notice, ...]:
    """A warning when a program made other prompt tokens of the same question: its figures are then
    those of another text."""
    lengths: dict[str, dict[str, int]] = {}
    for sample in samples:
        lengths.setdefault(sample.prompt, {})[sample.method] = sample.reply.prompt_tokens
    for prompt, by_method in lengths.items():
        plain = by_method.get(PLAIN_NAME)
        for method, count in by_method.items():
            if plain is not None and count != plain:
                return (
                    Notice(
                        f"{method} reads prompt {prompt} as {count} tokens, plain as {plain}",
                        hint="the two do not answer the same text; compare them with caution",
                    ),
                )
    return ()


def noise_notices(comparison: Comparison) -> tuple[Notice, ...]:
    """A warning when plain decoding's own speed changed a lot from repeat to repeat."""
    plain = comparison.of(PLAIN_NAME)
    if plain is None or plain.noise is None or plain.noise / 2 < NOISY:
        return ()
    return (
        Notice(
            f"plain decoding's own speed varied by ±{plain.noise * 50:.0f} % between repeats",
            hint="something else used this machine; measure again when it is quiet",
        ),
    )


def _plain_replies(samples: Sequence[Sample]) -> dict[str, Reply]:
    replies: dict[str, Reply] = {}
    for sample in samples:
        if sample.method == PLAIN_NAME:
            replies.setdefault(sample.prompt, sample.reply)
    return replies


def _versus(comparison: Comparison) -> tuple[Versus, ...]:
    rivals = sorted(comparison.methods, key=lambda name: name != BEST)
    found = (comparison.versus("auto", rival) for rival in rivals if rival != "auto")
    return tuple(versus for versus in found if versus is not None)
