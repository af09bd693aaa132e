"""Texts become vectors, by encoders and by decoders that were made for it or asked to."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import openai
import pytest

from tests.support.serving import RunningServer, serving
from tests.support.tiny_gguf import write_embedding_only, write_tiny

pytestmark = pytest.mark.engine

TEXTS = ["w1 w2 w3", "w7", "w200 w3 w3 w3 w90 w1", "w2 w1 w3"]
PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def embedders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """An encoder that takes the mean, one that takes its first token, and a decoder."""
    folder = tmp_path_factory.mktemp("models")
    write_embedding_only(folder / "mean.gguf")
    write_embedding_only(folder / "first.gguf", pooling=2)
    write_embedding_only(folder / "silent.gguf", pooling=None)
    write_tiny(folder / "decoder.gguf", "gqa", pooling=3)
    names = [folder / f"{name}.gguf" for name in ("mean", "first", "silent", "decoder")]
    exact = ("--kv-type", "f32", "--flash-attn", "off")
    with serving(folder / "home", *names, *exact, "--threads", "1", "--ubatch", "64") as running:
        yield running


def embed(server: RunningServer, given: Any, **more: Any) -> npt.NDArray[np.float64]:
    """(texts, components)"""
    with server.http() as http:
        response = http.post(PATH, json={"input": given, **more})
    assert response.status_code == 200, response.text
    data = response.json()["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return np.array([item["embedding"] for item in data])


def refusal(server: RunningServer, **body: Any) -> dict[str, Any]:
    with server.http() as http:
        response = http.post(PATH, json=body)
    assert response.status_code == 400
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize("model", ["mean", "first", "silent", "decoder"])
def test_texts_together_are_as_each_alone(embedders: RunningServer, model: str) -> None:
    texts = [TEXTS[index % 4] + f" w{index}" for index in range(70)]
    together = embed(embedders, texts, model=model)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-6)
    for index in (0, 1, 33, 69):
        alone = embed(embedders, texts[index], model=model)
        assert alone[0] == pytest.approx(together[index], abs=1e-4)
    assert np.abs(embed(embedders, texts, model=model) - together).max() < 1e-6
    apart = together @ together.T
    assert (apart[np.triu_indices(70, 1)] < 1 - 1e-6).all()


def test_the_rule_of_pooling_is_that_of_the_file(embedders: RunningServer) -> None:
    vectors = {name: embed(embedders, TEXTS[0], model=name)[0] for name in embedders.models}
    assert vectors["silent"] == pytest.approx(vectors["mean"], abs=1e-5)
    assert np.abs(vectors["first"] - vectors["mean"]).max() > 0.01


@pytest.mark.parametrize("model", ["mean", "decoder"])
def test_tokens_are_as_the_text_they_come_from(embedders: RunningServer, model: str) -> None:
    with embedders.http() as http:
        asked = {"content": TEXTS[2], "add_special": True, "model": model}
        tokens = http.post("/tokenize", json=asked).json()["tokens"]
    expected = embed(embedders, TEXTS[2], model=model)
    assert embed(embedders, tokens, model=model) == pytest.approx(expected, abs=1e-6)
    two = embed(embedders, [tokens, tokens], model=model)
    assert two == pytest.approx(np.repeat(expected, 2, axis=0), abs=1e-4)


def test_fewer_dimensions_are_the_first_ones_at_length_one(embedders: RunningServer) -> None:
    whole, short = embed(embedders, TEXTS), embed(embedders, TEXTS, dimensions=8)
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    assert short == pytest.approx(expected, abs=1e-6)
    assert refusal(embedders, input="w1", dimensions=65)["param"] == "dimensions"


def test_a_decoder_reads_a_text_that_is_wider_than_a_pass(embedders: RunningServer) -> None:
    """Its last token knows all of it: a change far from the end, in another pass, shows."""
    long, other = "w1 w2 " * 50, "w9 w2 " + "w1 w2 " * 49
    vectors = embed(embedders, [long, "w1", other, long], model="decoder")
    assert vectors[0] == pytest.approx(vectors[3], abs=1e-6)
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-6


def test_what_is_too_long_is_refused_with_both_lengths(embedders: RunningServer) -> None:
    error = refusal(embedders, input=["w1", "w1 " * 200])
    assert error["code"] == "context_length_exceeded"
    assert "202 tokens" in error["message"]
    assert "at most 128" in error["message"]
    assert "input 1" in error["message"]


@pytest.mark.parametrize("given", ["", [], [""], [[]], [400], [[1, 400]], [-1], {"a": 1}])
def test_input_without_a_meaning_is_refused(embedders: RunningServer, given: Any) -> None:
    assert refusal(embedders, input=given)["param"] == "input"


def test_who_embeds_does_not_generate(embedders: RunningServer) -> None:
    with embedders.http() as http:
        for path, body in (
            ("chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
            ("completions", {"prompt": "hi"}),
            ("responses", {"input": "hi"}),
        ):
            response = http.post(f"/v1/{path}", json={"model": "decoder", **body})
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "no_generation"


def test_the_official_client(embedders: RunningServer) -> None:
    """It asks for base64 by itself, and gives lists."""
    with openai.OpenAI(base_url=embedders.base_url, api_key="none") as client:
        answer = client.embeddings.create(model="mean", input=TEXTS)
        floats = client.embeddings.create(model="mean", input=TEXTS, encoding_format="float")
    assert len(answer.data) == 4
    for item, other in zip(answer.data, floats.data, strict=True):
        assert item.embedding == pytest.approx(other.embedding, abs=1e-9)
    # Three words, one word, six and three, each between two tokens of the model's own.
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 3 + 1 + 6 + 3 + 4 * 2


def test_base64_is_little_endian_float32(embedders: RunningServer) -> None:
    with embedders.http() as http:
        response = http.post(PATH, json={"input": "w1", "encoding_format": "base64"})
    data = base64.b64decode(response.json()["data"][0]["embedding"])
    assert np.frombuffer(data, "<f4") == pytest.approx(embed(embedders, "w1")[0], abs=1e-9)


def test_a_model_that_generates_embeds_only_when_asked_to(
    server: RunningServer, tiny_model: Path, tmp_path: Path
) -> None:
    assert refusal(server, input="hi")["code"] == "no_embeddings"
    arguments = (tiny_model, "--embeddings", "--pooling", "last", "--threads", "1")
    with serving(tmp_path, *arguments) as running:
        vectors = embed(running, ["hi", "ho", "hi"])
        listed = running.http().get("/v1/models").json()["data"][0]["meta"]
    assert vectors[0] == pytest.approx(vectors[2], abs=2e-4)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01
    assert listed["embeddings"] is True
    assert listed["pooling"] == "last"


def test_a_client_that_hangs_up_stops_its_passes(embedders: RunningServer) -> None:
    texts = ["w1 " * 100] * 2048

    def read() -> int:
        lines = http.get("/metrics").text.splitlines()
        counts = [line for line in lines if line.startswith("localspec_tokens_total")]
        return sum(int(line.split()[-1]) for line in counts)

    with embedders.http() as http:
        before = read()
        with pytest.raises(httpx.ReadTimeout):
            http.post(PATH, json={"input": texts}, timeout=0.3)
        assert http.post(PATH, json={"input": "w1"}).status_code == 200
        assert read() - before == 3


def test_a_model_that_scores_pairs_is_refused(tmp_path: Path) -> None:
    write_embedding_only(tmp_path / "ranker.gguf", pooling=4)
    with (
        pytest.raises(AssertionError, match="scores pairs of texts"),
        serving(tmp_path / "home", tmp_path / "ranker.gguf"),
    ):
        pass
