"""A session that turns texts into vectors. Lives in the child, in place of one that generates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from localspec.engine.bounds import check_settings
from localspec.engine.loading import DEFAULT_CTX, load_weights
from localspec.engine.prompt import PromptBuilder
from localspec.engine.questions import Question, answer
from localspec.engine.settings import Embeddings, EmbedRequest, EngineSettings
from localspec.engine.threads import default_threads
from localspec.errors import BadModelFile, EngineError, PromptTooLong, UsageError
from localspec.ggufmeta.known import EMBEDDERS
from localspec.ggufmeta.runnable import check_runnable, is_made_for_embeddings
from localspec.llama.cancel import CancelFlag
from localspec.llama.embedding_context import POOLING, EmbeddingContext, EmbeddingOptions
from localspec.llama.log import NativeLog

Emit = Callable[[Any], None]


class EmbeddingSession:
    """Owns one model and its context for embeddings."""

    def __init__(
        self, settings: EngineSettings, log: NativeLog, cancel: CancelFlag, emit: Emit
    ) -> None:
        """Load. `emit` gets LoadProgress until this returns.

        Raises UsageError, BadModelFile, EngineError, Cancelled.
        """
        check_settings(settings)
        if settings.pooling not in POOLING:
            raise UsageError(
                f"--pooling {settings.pooling!r} is not known", hint=f"one of {', '.join(POOLING)}"
            )
        begun = perf_counter()
        info = check_runnable(settings.target.path, embeds=True)
        pooling = settings.pooling
        if pooling == "auto" and not (info.header.whole("pooling_type") or 0):
            # Nobody trained this model to put a whole text into one of its tokens.
            pooling = "mean"
        self._model = load_weights(settings.target, "target", log, cancel, emit)
        try:
            self._vocabulary = self._model.vocabulary
            self._builder = PromptBuilder(self._model)
            self._context = EmbeddingContext(
                self._model,
                _options(settings, info.architecture, self._model.n_ctx_train, pooling),
                cancel,
                log,
            )
        except BaseException:
            self._model.close()
            raise
        if self._context.pooling == "none":
            self.close()
            raise BadModelFile(
                f"{settings.target.path.name} gives a vector for every token, not for a text",
                hint="--pooling mean, cls or last makes one of them",
            )
        self._is_made_for_it = is_made_for_embeddings(info.header)
        self._load_s = perf_counter() - begun

    @property
    def facts(self) -> dict[str, Any]:
        """What callers may want to show."""
        return {
            "n_ctx": self._context.longest,
            "n_vocab": self._vocabulary.n_tokens,
            "n_ctx_train": self._model.n_ctx_train,
            "description": self._model.description,
            "n_embd": self._context.n_embd,
            "pooling": self._context.pooling,
            "made_for_embeddings": self._is_made_for_it,
            "load_s": self._load_s,
        }

    def embed(self, request: EmbedRequest) -> Embeddings:
        """Raises UsageError, PromptTooLong, EngineError, Cancelled."""
        kept = request.dimensions or self._context.n_embd
        if kept > self._context.n_embd:
            raise UsageError(
                f"dimensions: {kept} asked for, the model's vectors have {self._context.n_embd}"
            )
        texts = [self._tokens(text, index) for index, text in enumerate(request.texts)]
        vectors = _of_length_one(self._context.embed(texts)[:, :kept])
        if not np.isfinite(vectors).all():
            raise EngineError("the model gave an embedding that is not finite")
        return Embeddings(
            tuple(vector.tobytes() for vector in vectors),
            kept,
            tuple(len(text) for text in texts),
        )

    def ask(self, question: Question) -> Any:
        return answer(question, self._vocabulary, self._builder)

    @property
    def is_idle(self) -> bool:
        return True

    @property
    def has_free_slot(self) -> bool:
        return True

    def begin(self, *_: object) -> NoReturn:
        """Raises UsageError, as does whatever else needs a model that generates."""
        raise UsageError("the model was loaded for embeddings: it does not generate text")

    next_logits = explain = begin

    def step(self) -> list[Any]:
        """There is never an answer to go on with."""
        return []

    def close(self) -> None:
        """May be called twice."""
        self._context.close()
        self._model.close()

    def _tokens(self, text: str | tuple[int, ...], index: int) -> Sequence[int]:
        tokens: Sequence[int]
        if isinstance(text, str):
            tokens = self._vocabulary.tokenize(text, add_special=True, parse_special=True)
        else:
            tokens = text
            n_vocab = self._vocabulary.n_tokens
            wrong = next((token for token in text if not 0 <= token < n_vocab), None)
            if wrong is not None:
                raise UsageError(f"token {wrong} is not in a vocabulary of {n_vocab}")
        if not tokens:
            raise UsageError(f"input {index} has no tokens")
        if len(tokens) > self._context.longest:
            raise PromptTooLong(
                f"input {index} has {len(tokens)} tokens, at most {self._context.longest} fit",
                hint="split it, or serve the model with a larger --ctx and --ubatch",
                prompt_tokens=len(tokens),
                n_ctx=self._context.longest,
            )
        return tokens


def _options(
    settings: EngineSettings, architecture: str, n_ctx_train: int, pooling: str
) -> EmbeddingOptions:
    n_ctx = settings.n_ctx or min(n_ctx_train or DEFAULT_CTX, DEFAULT_CTX)
    if n_ctx_train:
        # An encoder has no place for a token beyond those it was trained on.
        n_ctx = min(n_ctx, n_ctx_train)
    # An encoder reads a text in one pass. A decoder makes logits of all that it reads, which is a
    # reason for narrow passes.
    width = settings.n_ubatch
    if architecture in EMBEDDERS:
        width = max(width, settings.n_batch)
    return EmbeddingOptions(
        n_ctx=n_ctx,
        width=min(width, n_ctx),
        pooling=pooling,
        n_threads=settings.n_threads or default_threads(),
        kv_type=settings.target.kv_type,
        flash_attn=settings.flash_attn,
    )


def _of_length_one(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Each row divided by its Euclidean length; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    lengths[lengths == 0] = 1.0
    found: npt.NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return found
