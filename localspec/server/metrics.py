"""Counters of a server, in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from localspec.events import Answer
from localspec.server.models import Place

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(slots=True)
class Histogram:
    """Cumulative buckets over seconds."""

    buckets: list[int] = field(default_factory=lambda: [0] * len(_SECONDS))
    count: int = 0
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        for index, most in enumerate(_SECONDS):
            self.buckets[index] += seconds <= most


class Metrics:
    """Written from the event loop alone."""

    def __init__(self, paths: Collection[str]) -> None:
        """paths: those that are counted apart; any other is counted as `other`."""
        self._paths = frozenset(paths)
        self._responses: Counter[tuple[str, int]] = Counter()
        self._answers: Counter[tuple[str, str]] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._rounds: Counter[str] = Counter()
        self._drafted: Counter[tuple[str, str]] = Counter()
        self._accepted: Counter[tuple[str, str]] = Counter()
        self._prompt: dict[str, Histogram] = {}
        self._decode: dict[str, Histogram] = {}

    def responded(self, path: str, status: int) -> None:
        self._responses[path if path in self._paths else "other", status] += 1

    def answered(self, model: str, answer: Answer) -> None:
        """The figures of a finished answer; a cancelled one counts with what it has."""
        self._tokens[model, "prompt"] += answer.prompt_tokens
        self._tokens[model, "cached"] += answer.cached_tokens
        self._tokens[model, "completion"] += answer.completion_tokens
        self._rounds[model] += answer.speculation.rounds
        for drafter, counts in answer.speculation.by_drafter.items():
            self._drafted[model, drafter] += counts.drafted
            self._accepted[model, drafter] += counts.accepted
        self._prompt.setdefault(model, Histogram()).add(answer.timings.prompt_s)
        self._decode.setdefault(model, Histogram()).add(answer.timings.decode_s)

    def embedded(self, model: str, tokens: int) -> None:
        """Texts of so many tokens were turned into vectors."""
        self._tokens[model, "prompt"] += tokens

    def ended(self, model: str, outcome: str) -> None:
        """outcome: the answer's finish reason, `cancelled`, or the status of its error."""
        self._answers[model, outcome] += 1

    def text(self, places: Iterable[Place]) -> str:
        """The page of `GET /metrics`."""
        page = _Page()
        page.family("localspec_responses_total", "counter", "HTTP responses.")
        for (path, status), count in sorted(self._responses.items()):
            page.sample(count, path=path, status=str(status))
        page.family("localspec_answers_total", "counter", "Answers by how they ended.")
        for (model, outcome), count in sorted(self._answers.items()):
            page.sample(count, model=model, outcome=outcome)
        page.family("localspec_tokens_total", "counter", "Tokens; cached ones are prompt too.")
        for (model, kind), count in sorted(self._tokens.items()):
            page.sample(count, model=model, kind=kind)
        page.family("localspec_rounds_total", "counter", "Target passes that decoded.")
        for model, count in sorted(self._rounds.items()):
            page.sample(count, model=model)
        page.family("localspec_draft_tokens_total", "counter", "Draft tokens that were verified.")
        for (model, drafter), count in sorted(self._drafted.items()):
            page.sample(count, model=model, drafter=drafter)
        page.family("localspec_accepted_tokens_total", "counter", "Draft tokens that were kept.")
        for (model, drafter), count in sorted(self._accepted.items()):
            page.sample(count, model=model, drafter=drafter)
        page.histogram("localspec_prompt_seconds", "Time to read a prompt.", self._prompt)
        page.histogram("localspec_decode_seconds", "Time to decode an answer.", self._decode)
        _models(page, list(places))
        return page.text


def _models(page: _Page, places: list[Place]) -> None:
    page.family("localspec_requests_running", "gauge", "Requests that hold a slot.")
    for place in places:
        page.sample(place.queue.n_running, model=place.model.id)
    page.family("localspec_requests_waiting", "gauge", "Requests that wait for a slot.")
    for place in places:
        page.sample(place.queue.n_waiting, model=place.model.id)
    page.family("localspec_model_loaded", "gauge", "Whether the model is in memory.")
    for place in places:
        page.sample(int(place.engine is not None), model=place.model.id)
    page.family("localspec_model_loads_total", "counter", "How often the model was loaded.")
    for place in places:
        page.sample(place.loads, model=place.model.id)
    page.family("localspec_model_required_bytes", "gauge", "Planned memory of the model.")
    for place in places:
        page.sample(place.model.required, model=place.model.id)
    page.family("localspec_model_resident_bytes", "gauge", "Host memory of the engine's process.")
    for place in places:
        if place.engine is not None and place.engine.pid:
            page.sample(_resident(place.engine.pid), model=place.model.id)


def _resident(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


class _Page:
    def __init__(self) -> None:
        self.text = ""
        self._name = ""

    def family(self, name: str, kind: str, help: str) -> None:
        self._name = name
        self.text += f"# HELP {name} {help}\n# TYPE {name} {kind}\n"

    def sample(self, value: float, suffix: str = "", **labels: str) -> None:
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        self.text += f"{self._name}{suffix}{{{shown}}} {value}\n"

    def histogram(self, name: str, help: str, by_model: dict[str, Histogram]) -> None:
        self.family(name, "histogram", help)
        for model, histogram in sorted(by_model.items()):
            for most, count in zip(_SECONDS, histogram.buckets, strict=True):
                self.sample(count, "_bucket", model=model, le=str(most))
            self.sample(histogram.count, "_bucket", model=model, le="+Inf")
            self.sample(histogram.total, "_sum", model=model)
            self.sample(histogram.count, "_count", model=model)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
