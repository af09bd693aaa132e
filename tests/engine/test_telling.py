"""When an answer's words are told: the first at once, the others with those of other answers."""

from __future__ import annotations

from typing import Any

import pytest

from localspec.decoding.sampling import GREEDY
from localspec.engine.child import Child
from localspec.engine.messages import Close, Done, Failed, Generate, Reply, Said
from localspec.engine.settings import EngineSettings, GenerateRequest, ModelSettings
from localspec.engine.worker import main
from localspec.events import Answer, PromptProgress, TextDelta
from tests.engine.conftest import Tiny
from tests.support.engine import open_session

pytestmark = pytest.mark.engine

PROMPT = "the cat and the hat and the cat and the hat; "


def request(max_tokens: int) -> GenerateRequest:
    return GenerateRequest(prompt=PROMPT, sampling=GREEDY, max_tokens=max_tokens, ignore_end=True)


@pytest.mark.parametrize("method", ["none", "ngram", "model", "auto"])
def test_the_first_word_is_told_by_the_pass_that_ends_the_prompt(tiny: Tiny, method: str) -> None:
    """Neither a draft model's reading of the prompt nor the next tick of the clock delays it."""
    told: list[Any] = []
    with open_session(tiny("llama"), tiny("llama", noise=0.05), method=method) as session:
        running = session.begin(request(8), told.append, lambda: False)
        assert [type(event) for event in told] == [PromptProgress]
        session.step()
        words = [event.text for event in told if isinstance(event, TextDelta)]
        assert len(words) == 1
        ended: list[Answer] = []
        while not ended:
            ended = [over.result() for over in session.step() if over.running is running]
        assert words[0]
        assert ended[0].text.startswith(words[0])
        assert "".join(e.text for e in told if isinstance(e, TextDelta)) == ended[0].text


def test_an_answer_of_one_token_is_told_whole(tiny: Tiny) -> None:
    told: list[Any] = []
    with open_session(tiny("llama"), method="ngram") as session:
        answer = session.generate(request(1), told.append)
    assert len(answer.tokens) == 1
    assert answer.finish_reason == "length"
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == answer.text
    assert answer.timings.prompt_s > 0


def test_what_answers_of_one_pass_say_is_one_message(tiny: Tiny) -> None:
    settings = EngineSettings(
        target=ModelSettings(tiny("llama")), method="none", n_ctx=512, n_threads=1, n_slots=2
    )
    child = Child("engine-of-a-test", main, settings)
    messages: list[list[Reply]] = []
    try:
        while not isinstance(child.connection.recv()[-1], Done):
            pass
        for number in (1, 2):
            child.connection.send(Generate(number, request(400)))
        ends = 0
        while ends < 2:
            messages.append(child.connection.recv())
            assert not any(isinstance(reply, Failed) for reply in messages[-1])
            ends += sum(isinstance(reply, Done) for reply in messages[-1])
        child.connection.send(Close())
    finally:
        child.close()
    assert any({reply.id for reply in message} == {1, 2} for message in messages)
    replies = [reply for message in messages for reply in message]
    for number in (1, 2):
        own = [reply for reply in replies if reply.id == number]
        assert isinstance(own[-1], Done)
        deltas = [r.event for r in own if isinstance(r, Said) and isinstance(r.event, TextDelta)]
        assert "".join(delta.text for delta in deltas) == own[-1].result.text
