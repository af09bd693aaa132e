"""`fit` refuses what `run` refuses, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localspec.cli.app import run_program
from localspec.cli.fit_checks import check_draft, check_options
from localspec.engine.bounds import LEAST_CTX, check_settings
from localspec.engine.settings import EngineSettings, ModelSettings
from localspec.errors import UsageError
from localspec.memory.request import LoadOptions
from tests.support.tiny_gguf import write_tiny


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALSPEC_HOME", str(tmp_path / "home"))
    return write_tiny(tmp_path / "tiny.gguf", "llama")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_ctx": 100},
        {"n_ctx": 2**31},
        {"n_batch": 0},
        {"n_batch": 2**17},
        {"n_ubatch": 0},
        {"n_ubatch": -1},
        {"draft_max": 0},
        {"draft_max": 1000},
        {"kv_type": "q9_9"},
    ],
)
def test_bounds_and_words_are_those_of_the_engine(wrong: dict[str, int | str]) -> None:
    values: dict[str, object] = dict(wrong)
    draft_max = values.pop("draft_max", None)
    with pytest.raises(UsageError) as here:
        check_options(LoadOptions(**values), draft_max)  # type: ignore[arg-type]
    values = dict(wrong)
    target = ModelSettings(Path("a.gguf"), kv_type=str(values.pop("kv_type", "f16")))
    with pytest.raises(UsageError) as there:
        check_settings(EngineSettings(target, **values))  # type: ignore[arg-type]
    assert (here.value.message, here.value.hint) == (there.value.message, there.value.hint)


def test_what_the_engine_takes_at_its_bounds_is_taken() -> None:
    check_options(LoadOptions(n_ctx=LEAST_CTX, n_batch=1, n_ubatch=2**16, gpu_layers=9999), 256)
    check_options(LoadOptions(), None)
    check_draft("auto", has_draft=False)
    check_draft("model", has_draft=True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--ubatch", "0"], "--ubatch 0"),
        (["--batch", "0"], "--batch 0"),
        (["--draft-max", "0"], "--draft-max 0"),
        (["--n-cpu-moe", "-1"], "--n-cpu-moe -1"),
        (["--n-cpu-moe", "2", "--cpu-moe"], "exclude each other"),
        (["--tensor-split", "nan"], "--tensor-split"),
        (["--tensor-split", "inf,1"], "--tensor-split"),
        (["--tensor-split", "1,1,1"], "3 shares"),
        (["--draft", "model"], "--draft model needs a draft model"),
        (["--all"], "exclude each other"),
        (["--vram", "24"], "--vram 24"),
    ],
)
def test_options_that_nothing_would_load_are_wrong_usage(
    tiny: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    assert run_program(["fit", str(tiny), "--vram", "1GiB,1GiB", *options]) == 2
    assert named in capsys.readouterr().err


def test_projector_that_is_no_gguf_is_a_bad_file(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tiny.parent / "text.gguf"
    text.write_text("not a model" * 100)
    assert run_program(["fit", str(tiny), "--vram", "1GiB", "--mmproj", str(text)]) == 6
    assert "text.gguf" in capsys.readouterr().err


def test_more_layers_than_there_are_are_all_of_them(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fit", str(tiny), "--vram", "1GiB", "--json", "--gpu-layers"]
    assert run_program([*arguments, "9999"]) == 0
    many = json.loads(capsys.readouterr().out)
    assert run_program([*arguments, "all"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu_layers"] == many["gpu_layers"]
