"""The drafters of a session, and the policy that an answer decodes by."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from localspec.decoding.chain import BestDrafter, ChainDrafter
from localspec.decoding.controller import Controller
from localspec.decoding.cost_curve import CostCurve
from localspec.decoding.lookup import LookupDrafter
from localspec.decoding.lookup_cache import LookupCache
from localspec.decoding.lookup_file import ForeignCache, read_lookup_file
from localspec.decoding.lookup_store import LookupStore, store_path
from localspec.decoding.model_drafter import ModelDrafter
from localspec.decoding.ngram import NgramDrafter
from localspec.decoding.policies import FixedPolicy, PlainPolicy
from localspec.decoding.protocols import Drafter, DraftModel, Policy
from localspec.decoding.sampling import SamplingSettings
from localspec.engine.settings import DRAFT_METHODS, EngineSettings
from localspec.errors import CacheFileError, UsageError
from localspec.events import Notice

_SAVE_EVERY_S = 60.0
"""The dynamic cache reaches the disk at the end of a session, and this often within it."""


class Drafting:
    """Owns what drafters know beyond one answer: caches, statistics, the controller."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        n_vocab: int,
        vocabulary: str,
        draft_cap: int,
        open_draft: Callable[[int], DraftModel],
        measure_costs: Callable[[], CostCurve],
        notify: Callable[[Notice], None],
    ) -> None:
        """vocabulary: fingerprint of the target's. draft_cap: most draft tokens its memory can
        roll back. open_draft: one slot's sequence of the draft model, which is loaded when it is
        first needed.
        """
        self._settings = settings
        self._n_vocab = n_vocab
        self._draft_cap = draft_cap
        self._open_draft = open_draft
        self._measure_costs = measure_costs
        self._notify = notify
        self._model_drafters: dict[int, ModelDrafter] = {}
        self._costs: CostCurve | None = None
        self._static = self._load_static(vocabulary)
        self._store = self._open_store(vocabulary)
        self._dynamic = self._load_dynamic()
        # What a drafter knows of a conversation belongs to the slot that holds the conversation.
        slots = range(settings.n_slots)
        self._ngrams = [self._new_ngram(self._dynamic) for _ in slots]
        self._controllers: dict[tuple[int, int, bool], Controller] = {}
        self._last_controller: Controller | None = None
        self._saved = monotonic()

    def policy(
        self,
        method: str,
        draft_max: int | None,
        *,
        fixed: bool,
        fresh: bool,
        slot: int = 0,
        sampling: SamplingSettings | None = None,
    ) -> Policy:
        """How to decode the next answer in `slot`. fixed: without weighing costs. fresh: as if
        nothing had ever been said. sampling: of that answer, which a draft model follows; None is
        greedy.

        Raises UsageError for an unknown method, or `model` without a draft model.
        """
        if method not in DRAFT_METHODS:
            raise UsageError(f"--draft {method!r} is not known", hint=", ".join(DRAFT_METHODS))
        most = min(draft_max or self._settings.draft_max, self._draft_cap)
        if method == "none" or most < 1:
            return PlainPolicy()
        if method == "model" and self._settings.draft is None:
            raise UsageError(
                "--draft model needs a draft model, and this model has none",
                hint="name one: --draft PATH or --draft OWNER/REPO; or use --draft ngram",
            )
        if method in ("model", "auto") and self._settings.draft is not None:
            self._drafter_model(slot).sample_as(sampling)
        if method == "model":
            drafter = self._drafter_model(slot)
            # The controller sets this for its own answers.
            drafter.stop_below = 0.0
            return FixedPolicy(drafter, most, self._settings.draft_min)
        ngram = self._fresh_ngram() if fresh else self._ngrams[slot][1]
        if fixed:
            drafters: list[Drafter] = [ngram]
            if method == "auto" and self._settings.draft is not None:
                drafters.append(self._drafter_model(slot))
            return FixedPolicy(ChainDrafter(drafters), most, self._settings.draft_min)
        return self._controller(method, ngram, most, slot, fresh=fresh)

    def explain(self) -> dict[str, Any]:
        """What the controller of the latest `auto` answer knows; empty before the first."""
        return self._last_controller.explain() if self._last_controller else {}

    @property
    def costs(self) -> CostCurve | None:
        """The cost curve, once `auto` needed it."""
        return self._costs

    def answered(self) -> None:
        """After each answer: save what was learned, now and then."""
        if monotonic() - self._saved > _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Merge this session's n-grams into the dynamic cache on disk."""
        self._saved = monotonic()
        if self._store is None:
            return
        try:
            for lookup, _ in self._ngrams:
                self._store.save(lookup.context)
                lookup.saved()
        except CacheFileError as error:
            hint = error.hint or "what this session taught is lost"
            self._notify(Notice(error.message, hint))

    def close(self) -> None:
        """Free what the draft models draw with. May be called twice."""
        for drafter in self._model_drafters.values():
            drafter.close()

    def _controller(
        self, method: str, ngram: BestDrafter, most: int, slot: int, *, fresh: bool
    ) -> Controller:
        """`auto` chooses among all drafters, `ngram` among lengths of its own drafts."""
        if self._costs is None:
            self._costs = self._measure_costs()
        has_model = method == "auto" and self._settings.draft is not None
        costly = [self._drafter_model(slot)] if has_model else []
        if fresh:
            controller = Controller([ngram], costly, cost=self._costs, draft_max=most)
        else:
            key = (slot, most, has_model)
            if key not in self._controllers:
                self._controllers[key] = Controller(
                    [ngram], costly, cost=self._costs, draft_max=most
                )
            controller = self._controllers[key]
        self._last_controller = controller
        return controller

    def _drafter_model(self, slot: int) -> ModelDrafter:
        found = self._model_drafters.get(slot)
        if found is None:
            found = self._model_drafters[slot] = ModelDrafter(
                self._open_draft(slot),
                n_vocab=self._n_vocab,
                p_min=self._settings.p_min,
                draft_max=self._settings.draft_max,
            )
        return found

    def _new_ngram(self, dynamic: LookupCache) -> tuple[LookupDrafter, BestDrafter]:
        lookup = LookupDrafter(dynamic=dynamic, static=self._static)
        return lookup, BestDrafter([NgramDrafter(), lookup])

    def _fresh_ngram(self) -> BestDrafter:
        """Lookup caches that know nothing but this conversation add nothing to its n-grams."""
        if self._static is None:
            return BestDrafter([NgramDrafter()])
        return self._new_ngram(LookupCache())[1]

    def _load_static(self, vocabulary: str) -> LookupCache | None:
        path = self._settings.lookup_static
        if path is None:
            return None
        try:
            return read_lookup_file(path, vocabulary=vocabulary, n_vocab=self._n_vocab)
        except CacheFileError as error:
            self._notify(Notice(error.message, error.hint or "answering without this cache"))
            return None

    def _open_store(self, vocabulary: str) -> LookupStore | None:
        path = self._settings.lookup_dynamic
        if path is None and self._settings.lookup_folder is not None:
            path = store_path(self._settings.lookup_folder, vocabulary)
        return LookupStore(path, vocabulary, n_vocab=self._n_vocab) if path else None

    def _load_dynamic(self) -> LookupCache:
        if self._store is None:
            return LookupCache()
        try:
            return self._store.load()
        except CacheFileError as error:
            hint = error.hint or "answering without this cache"
            if self._settings.lookup_dynamic is not None:
                # A file that the user named may be anything: it stays as it is.
                self._store = None
            elif not isinstance(error, ForeignCache):
                hint = f"a new one is begun; the old one is kept as {self._store.aside_path}"
            self._notify(Notice(error.message, hint))
            return LookupCache()
