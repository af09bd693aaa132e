"""Answers that are decoded together: which slot each gets, and one pass for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from localspec.decoding.prefix import common_prefix
from localspec.engine.generation import Generation
from localspec.errors import Cancelled, EngineError, LocalspecError
from localspec.llama.batch import Outputs, Part
from localspec.llama.context import Context, Rollback


@dataclass(frozen=True, slots=True)
class Settled:
    """An answer that has left its slot."""

    generation: Generation
    error: LocalspecError | None
    """Why it could not go on; None for a finished answer, a cancelled one included."""


class Scheduler:
    """The slots of a context, each a sequence of its own.

    One answer alone is the case of one: the same code, the same passes.
    """

    def __init__(self, context: Context, n_slots: int) -> None:
        self._context = context
        self._active: dict[int, Generation] = {}
        self._used = [0] * n_slots
        """When each slot was used last, in answers."""
        self._answers = 0

    @property
    def n_active(self) -> int:
        return len(self._active)

    @property
    def has_free_slot(self) -> bool:
        return len(self._active) < len(self._used)

    def choose(self, prompt: Sequence[int]) -> int:
        """The free slot for a prompt: the one whose conversation it continues, else the one that
        was not used for longest.

        A slot of which the prompt shares only the beginning, such as a system message, keeps its
        conversation as long as another one is free.
        """
        free = [slot for slot in range(len(self._used)) if slot not in self._active]
        if not free:
            raise EngineError("every slot is in use")
        shared = {slot: common_prefix(self._context.tokens(slot), prompt) for slot in free}
        best = max(free, key=lambda slot: (shared[slot], -self._used[slot]))
        if 2 * shared[best] >= self._context.n_tokens(best) > 0:
            return best
        return min(free, key=lambda slot: (self._used[slot], -shared[slot]))

    def add(self, generation: Generation) -> None:
        """Take up an answer in the slot that was chosen for it."""
        self._answers += 1
        self._used[generation.sequence] = self._answers
        self._active[generation.sequence] = generation

    def step(self) -> list[Settled]:
        """One pass of all answers; those that ended or failed. Each of them ends for itself."""
        settled: list[Settled] = []
        going: list[tuple[Generation, Part]] = []
        rows = self._rows_for_each()
        room = self._context.n_batch
        for generation in list(self._active.values()):
            try:
                part = generation.part(rows)
            except Cancelled:
                generation.stop()
                part = None
            except LocalspecError as error:
                settled.append(self._leave(generation, error))
                continue
            if part is None:
                settled.append(self._leave(generation, None))
            else:
                going.append((generation, part))
                room -= len(part.tokens)
        if going:
            settled += self._pass(going, room)
        return settled

    def close(self) -> None:
        for generation in self._active.values():
            generation.close()
        self._active.clear()

    def _rows_for_each(self) -> int:
        """Rows of logits of one answer: a full batch has no idle compute to spend on drafts."""
        n_active = max(1, len(self._active))
        if n_active > 1 and self._context.rollback is Rollback.RESTORE:
            # Going back evaluates tokens again, which would replace the rows of the others.
            return 1
        return max(1, self._context.n_outputs_max // n_active)

    def _pass(self, going: list[tuple[Generation, Part]], room: int) -> list[Settled]:
        if room < 0:
            # Long prompts take turns; answers that are being written go on in every pass.
            going = _within(going, self._context.n_batch)
        begun = perf_counter()
        try:
            self._context.decode(*(part for _, part in going))
        except Cancelled:
            for generation, _ in going:
                generation.stop()
            return [self._leave(generation, None) for generation, _ in going]
        except LocalspecError as error:
            return [self._leave(generation, error) for generation, _ in going]
        pass_s = perf_counter() - begun
        is_shared = len(going) > 1
        token_s = pass_s / sum(len(part.tokens) for _, part in going) if is_shared else 0.0
        settled: list[Settled] = []
        row = 0
        for generation, part in going:
            first, row = row, row + part.n_outputs
            try:
                own_s = token_s * len(part.tokens) if is_shared else pass_s
                generation.settle(first, own_s, n_sharing=len(going))
            except Cancelled:
                generation.stop()
            except LocalspecError as error:
                settled.append(self._leave(generation, error))
                continue
            if generation.has_ended:
                settled.append(self._leave(generation, None))
        return settled

    def _leave(self, generation: Generation, error: LocalspecError | None) -> Settled:
        del self._active[generation.sequence]
        return Settled(generation, error)


def _within(going: list[tuple[Generation, Part]], n_batch: int) -> list[tuple[Generation, Part]]:
    """Rounds first, which always fit; then the narrowest parts of prompts, as many as one pass
    takes. A drawn draft that waited for its length would be drawn anew, and so be biased."""
    chosen: list[tuple[Generation, Part]] = []
    for generation, part in sorted(
        going, key=lambda item: (item[1].outputs is not Outputs.ALL, len(item[1].tokens))
    ):
        if len(part.tokens) <= n_batch:
            chosen.append((generation, part))
            n_batch -= len(part.tokens)
    return chosen
