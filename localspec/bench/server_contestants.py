"""llama-server among the contestants: the same questions, the same tokens, the same clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.bench.contestants import Question
from localspec.bench.llama_server import LlamaServer, read_options, server_arguments
from localspec.bench.prompt_text import PromptWriter
from localspec.bench.samples import Reply
from localspec.bench.server_methods import ServerMethod, ServerOptions, usable_methods
from localspec.engine.settings import ChatMessage, EngineSettings
from localspec.errors import EngineError

_STOP_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
_FIRST_QUESTION = Question((ChatMessage("user", "Say good morning."),), max_tokens=8)


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """What all servers of one benchmark have in common."""

    binary: Path
    options: ServerOptions
    settings: EngineSettings
    n_ctx: int
    n_threads: int
    writer: PromptWriter
    keep: bool
    """Whether servers that learn nothing stay up between answers. They then hold a copy of the
    model each; otherwise there is never more than one."""

    @classmethod
    def of(
        cls, binary: Path, settings: EngineSettings, *, n_ctx: int, n_threads: int, keep: bool
    ) -> ServerSetup:
        """Raises UsageError when `binary` is no llama-server, BadModelFile, TemplateError."""
        return cls(
            binary=binary,
            options=read_options(binary),
            settings=settings,
            n_ctx=n_ctx,
            n_threads=n_threads,
            writer=PromptWriter.of_file(settings.target.path),
            keep=keep,
        )

    def contestants(self) -> tuple[ServerContestant, ...]:
        """Every kind of speculation that this build and this pair allow, plain first."""
        has_draft = self.settings.draft is not None
        methods = usable_methods(self.options, has_draft=has_draft)
        return tuple(ServerContestant(self, method) for method in methods)


class ServerContestant:
    """llama-server started in one way. `close()` ends what still runs."""

    def __init__(self, setup: ServerSetup, method: ServerMethod) -> None:
        self._setup = setup
        self._method = method
        self._server: LlamaServer | None = None

    @property
    def name(self) -> str:
        return self._method.name

    @property
    def has_warm_runs(self) -> bool:
        return False

    async def answer(
        self, question: Question, *, fresh_caches: bool, stopped: Callable[[], bool]
    ) -> Reply:
        """As `Contestant.answer`; caches are always fresh."""
        server = await self._started(stopped)
        try:
            return await self._ask(server, question, stopped)
        except BaseException:
            self.close()
            raise
        finally:
            if self._method.keeps_state or not self._setup.keep:
                self.close()

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _started(self, stopped: Callable[[], bool]) -> LlamaServer:
        if self._server is None:
            setup = self._setup
            arguments = server_arguments(
                setup.settings,
                self._method,
                setup.options,
                n_ctx=setup.n_ctx,
                n_threads=setup.n_threads,
            )
            self._server = await LlamaServer.start(setup.binary, arguments, stopped)
            # Its first answer pays for buffers that later ones find ready.
            await self._ask(self._server, _FIRST_QUESTION, stopped)
        return self._server

    async def _ask(
        self, server: LlamaServer, question: Question, stopped: Callable[[], bool]
    ) -> Reply:
        prompt = self._setup.writer.write(question)
        tokenized = await server.post(
            "/tokenize",
            {"content": prompt.text, "add_special": prompt.adds_bos, "parse_special": True},
            stopped,
        )
        body = completion_request(question, tokenized["tokens"])
        return reply_of_completion(await server.post("/completion", body, stopped))


def completion_request(question: Question, tokens: Sequence[int]) -> dict[str, Any]:
    """The body of `/completion` that asks for what the engine is asked for."""
    sampling = question.sampling
    body: dict[str, Any] = {
        "prompt": list(tokens),
        "n_predict": question.max_tokens,
        "temperature": sampling.temp,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "typical_p": sampling.typical_p,
        "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.repeat_last_n,
        "cache_prompt": False,
        "return_tokens": True,
        "stream": False,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    return body


def reply_of_completion(answer: dict[str, Any]) -> Reply:
    """A completion's figures in our terms.

    The server counts the first token among those it generated but starts its clock at it, so the
    tokens of the timed part are one less, as in our own figures. Raises EngineError when the
    answer has no timings.
    """
    timings = answer.get("timings")
    if not isinstance(timings, dict) or "predicted_ms" not in timings:
        raise EngineError("llama-server's answer has no timings; it is too old to be compared")
    return Reply(
        text=str(answer.get("content", "")),
        tokens=tuple(answer.get("tokens", ())),
        prompt_tokens=int(answer.get("tokens_evaluated", 0)),
        decode_tokens=max(0, int(timings["predicted_n"]) - 1),
        decode_s=float(timings["predicted_ms"]) / 1000.0,
        finish_reason=_STOP_REASONS.get(str(answer.get("stop_type")), "length"),
        drafted=int(timings.get("draft_n", 0)),
        accepted=int(timings.get("draft_n_accepted", 0)),
    )
