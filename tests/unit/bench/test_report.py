"""Tables, charts, words and JSON say what the comparison says."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from localspec.bench.bars import Bar, BarGroup, bar_groups, scale_end
from localspec.bench.chart import text_chart
from localspec.bench.compare import compare
from localspec.bench.differences import Difference
from localspec.bench.history import (
    KEPT_PER_MODEL,
    History,
    measured_speedup,
    measured_speedups,
    remembered,
)
from localspec.bench.machine import Machine, this_machine
from localspec.bench.report import as_json, sentence, versus_words
from localspec.bench.results import Comparison
from localspec.bench.server_methods import BEST
from localspec.bench.svg import svg_chart
from localspec.bench.tables import position_table, summary_table, workload_table
from localspec.bench.workloads import load_workloads
from localspec.events import DrafterCounts, Speculation
from localspec.paths import Paths
from tests.support.bench_fakes import sample

SVG = "{http://www.w3.org/2000/svg}"
MACHINE = Machine("Some <CPU> & more", 2, 8 * 2**30, "Linux x86_64", ("RTX 4090",))
DRAFTED = Speculation(
    "auto",
    rounds=20,
    drafted=40,
    accepted=20,
    accepted_per_position=(15, 5),
    drafted_per_position=(20, 20),
    propose_s=0.2,
    verify_s=1.0,
    by_drafter={"model": DrafterCounts(15, 30, 16), "ngram": DrafterCounts(5, 10, 4)},
)


def comparison(changed: int | None = None) -> Comparison:
    tokens = tuple(range(41))
    other = tokens if changed is None else (*tokens[:changed], 999, *tokens[changed + 1 :])
    return compare(
        [
            sample("plain", "c1", 10.0, workload="code"),
            sample("plain", "t1", 10.0, workload="chat"),
            sample("auto", "c1", 36.1, workload="code", speculation=DRAFTED),
            sample("auto", "t1", 10.0, workload="chat", speculation=DRAFTED, tokens=other),
        ]
    )


def test_the_sentence_names_mean_worst_and_where_it_comes_from() -> None:
    assert sentence(comparison()) == (
        "On this machine auto is 1.90× plain on average and 1.00× at worst (t1); "
        "most of it comes from the draft model on code. "
        "Every answer was identical to plain decoding's."
    )


def test_the_sentence_says_what_differed() -> None:
    assert sentence(comparison(changed=3)).endswith(
        "1 of 2 answers part from plain decoding's (auto), the earliest at token 4 of t1."
    )


def test_the_sentence_gives_both_logits_where_they_are_known() -> None:
    known = {Difference("p1", 3, 3, 9): Difference("p1", 3, 3, 9, 12.5, 12.25)}
    tokens = (0, 1, 2, 9, *range(4, 41))
    found = compare([sample("plain"), sample("auto", tokens=tokens)], known=known)
    assert "(logits 12.500 and 12.250)." in sentence(found)


def test_the_fastest_method_speaks_where_auto_was_not_measured() -> None:
    found = compare([sample("plain"), sample("ngram", rate=5.0), sample("model", rate=20.0)])
    assert sentence(found).startswith("On this machine model is 2.00× plain")


def test_answers_too_short_to_time_are_said_to_be() -> None:
    short = tuple(range(4))
    found = compare([sample("plain", tokens=short), sample("auto", tokens=short)])
    assert sentence(found) == "No answer was long enough to be timed."


def test_versus_is_told_in_words() -> None:
    found = compare([sample("plain"), sample("auto", rate=22.0), sample("s", rate=20.0)])
    versus = found.versus("auto", "s")
    assert versus is not None
    assert versus_words(versus).startswith("Against s, auto is 1.10× as fast on average")


def test_the_tables_have_a_row_for_each_method_and_a_column_for_each_workload() -> None:
    table = workload_table(comparison())
    assert table.columns == ("METHOD", "CODE", "CHAT", "ALL")
    assert table.rows == (
        ("plain", "1.00×", "1.00×", "1.00×"),
        ("auto", "3.61×", "1.00×", "1.90×"),
    )
    summary = summary_table(comparison(changed=3))
    row = dict(zip(summary.columns, summary.rows[1], strict=True))
    assert row["IDENTICAL"] == "1/2"
    assert row["ACCEPTED"] == "50 %"
    assert row["PER ROUND"] == "2.00"
    assert row["WORST"] == "1.00×"
    assert all(len(line) == len(summary.columns) for line in summary.rows)
    plain = dict(zip(summary.columns, summary.rows[0], strict=True))
    assert plain["ACCEPTED"] == plain["FORMULA"] == "–"


def test_acceptance_is_shown_by_position() -> None:
    table = position_table(comparison())
    assert table.columns == ("METHOD", "1", "2")
    assert table.rows == (("auto", "75 %", "25 %"),)


def test_a_wide_table_is_split_and_keeps_its_names() -> None:
    table = workload_table(comparison())
    assert table.split(200) == (table,)
    pieces = table.split(19)
    assert [piece.columns for piece in pieces] == [
        ("METHOD", "CODE"),
        ("METHOD", "CHAT"),
        ("METHOD", "ALL"),
    ]
    assert pieces[1].rows[1] == ("auto", "1.00×")
    assert [piece.columns for piece in table.split(20)] == [
        ("METHOD", "CODE", "CHAT"),
        ("METHOD", "ALL"),
    ]


def test_the_json_document_has_the_agreed_keys() -> None:
    document = as_json(
        comparison(changed=3),
        machine=MACHINE,
        model="pair",
        workloads=load_workloads(["code", "chat"]),
        settings={"max_tokens": 41},
        finished=True,
    )
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text)["machine"]["cpu"] == MACHINE.cpu
    assert document["model"] == "pair"
    assert [w["name"] for w in document["workloads"]] == ["code", "chat"]
    results = {(r["method"], r["workload"]): r for r in document["results"]}
    assert len(results) == 4
    auto = results["auto", "chat"]
    assert {
        "decode_tokens_per_second",
        "speedup",
        "acceptance_rate",
        "tokens_per_round",
        "identical",
        "first_difference",
    } <= set(auto)
    assert auto["identical"] is False
    assert auto["first_difference"]["index"] == 3
    assert auto["first_difference"]["token"] == 999
    assert results["auto", "code"]["first_difference"] is None
    summary = {s["method"]: s for s in document["summary"]}
    assert summary["auto"]["geomean_speedup"] == pytest.approx(1.9, abs=0.001)
    assert summary["auto"]["worst_speedup"] == pytest.approx(1.0)


GROUPS = (
    BarGroup("code", (Bar("auto", 2.0, 1.5, 2.5), Bar("ngram", 0.5, 0.25, 0.75))),
    BarGroup("a < b & c", (Bar("auto", 1.25, 1.0, 1.5),)),
)


def test_the_text_chart_draws_to_scale_with_one_marked() -> None:
    lines = text_chart(GROUPS, width=80)
    assert len(lines) == 5
    column = lines[0].index("1.0×") + 1
    start = lines[1].index("█")
    for line in lines[1:4]:
        assert line[column] in "│┃"
    fast, slow = lines[1], lines[2]
    # The bar's field ends two blanks before the figures; 2.5 is the end of its axis.
    cells = fast.index("2.00×") - 2 - start
    assert column - start == round(cells / 2.5)
    drawn = fast[start : start + cells]
    assert drawn.count("█") + drawn.count("▒") + drawn.count("┃") == round(2.0 / 2.5 * cells)
    assert slow[start : start + cells].count("█") == round(0.25 / 2.5 * cells)
    assert all(len(line) <= 80 for line in lines)
    assert "2.00×  1.50–2.50" in fast


def test_an_empty_chart_is_empty() -> None:
    assert text_chart(()) == []


def test_the_axis_holds_every_whisker() -> None:
    assert scale_end(GROUPS) == 2.5
    assert scale_end((BarGroup("x", (Bar("m", 2.1, 2.0, 2.6),)),)) == 3.0
    assert scale_end(()) == 1.5


def test_groups_leave_plain_out_and_end_with_all_workloads() -> None:
    groups = bar_groups(comparison())
    assert [group.label for group in groups] == ["code", "chat", "all"]
    assert {bar.method for group in groups for bar in group.bars} == {"auto"}
    assert [group.label for group in bar_groups(comparison(), ["plain"])] == [
        "code",
        "chat",
        "all",
    ]


def test_the_svg_is_well_formed_and_draws_bars_to_scale() -> None:
    text = svg_chart(GROUPS, title="Speed <up> & more", subtitle=str(MACHINE), footer="1 & 2 " * 60)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    bars = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths == pytest.approx([widths[0], widths[0] / 4, widths[0] * 0.625], abs=0.2)
    height = float(root.attrib["height"])
    assert all(float(t.attrib["y"]) < height for t in root.iter(f"{SVG}text"))
    words = [t.text for t in root.iter(f"{SVG}text")]
    assert "Speed <up> & more" in words
    assert "a < b & c" in words


def paths(root: Path) -> Paths:
    return Paths(root / "config", root / "data", root / "cache")


def remember(history: History, model: str, when: str, changed: int | None = None) -> None:
    history.add(
        remembered(
            comparison(changed),
            model=model,
            when=when,
            version="0",
            settings={"n_ctx": 1},
            workloads={"code": 1},
        )
    )


def test_results_are_remembered_for_this_machine_only(tmp_path: Path) -> None:
    remember(History(paths(tmp_path), MACHINE), "pair", "2026-01-01")
    assert measured_speedup("pair", paths=paths(tmp_path), machine=MACHINE) == pytest.approx(
        1.9, abs=0.001
    )
    assert measured_speedup("other", paths=paths(tmp_path), machine=MACHINE) is None
    elsewhere = Machine("Another CPU", 8, 8 * 2**30, "Linux x86_64")
    assert measured_speedup("pair", paths=paths(tmp_path), machine=elsewhere) is None


def test_the_newest_result_counts(tmp_path: Path) -> None:
    history = History(paths(tmp_path), MACHINE)
    remember(history, "pair", "2026-01-01")
    newer = compare([sample("plain"), sample("auto", rate=13.0)])
    history.add(
        remembered(
            newer, model="pair", when="2026-02-01", version="0", settings={}, workloads={"w": 1}
        )
    )
    found = measured_speedups(["pair", "x"], paths=paths(tmp_path), machine=MACHINE)
    assert found == {"pair": pytest.approx(1.3)}
    latest = history.latest("pair")
    assert latest is not None
    assert latest.when == "2026-02-01"


def test_a_result_over_more_workloads_outlives_a_newer_one_over_fewer(tmp_path: Path) -> None:
    history = History(paths(tmp_path), MACHINE)
    for rate, workloads in ((16.0, {"a": 1, "b": 1}), (14.0, {"a": 1, "b": 1}), (30.0, {"a": 1})):
        found = compare([sample("plain"), sample("auto", rate=rate)])
        history.add(
            remembered(found, model="pair", when="", version="0", settings={}, workloads=workloads)
        )
    speedup = measured_speedup("pair", paths=paths(tmp_path), machine=MACHINE)
    assert speedup == pytest.approx(1.4)


def test_another_programs_speed_is_never_told_as_ours(tmp_path: Path) -> None:
    history = History(paths(tmp_path), MACHINE)
    found = compare([sample("plain"), sample("ngram", rate=12.0), sample(BEST, rate=30.0)])
    history.add(
        remembered(found, model="pair", when="", version="0", settings={}, workloads={"a": 1})
    )
    speedup = measured_speedup("pair", paths=paths(tmp_path), machine=MACHINE)
    assert speedup == pytest.approx(1.2)


def test_old_results_of_a_model_are_forgotten_and_no_file_is_left_behind(tmp_path: Path) -> None:
    history = History(paths(tmp_path), MACHINE)
    remember(history, "rare", "2025-01-01")
    for day in range(KEPT_PER_MODEL + 5):
        remember(history, "pair", f"day {day}")
    kept = [item for item in history.load() if item.model == "pair"]
    assert [item.when for item in kept] == [f"day {day}" for day in range(5, KEPT_PER_MODEL + 5)]
    assert history.latest("rare") is not None
    assert [file.name for file in history.path.parent.iterdir()] == [history.path.name]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 99}', '{"format": 1, "results": [{}]}']
)
def test_a_damaged_history_counts_as_empty_and_can_be_written_again(
    tmp_path: Path, content: str
) -> None:
    history = History(paths(tmp_path), MACHINE)
    history.path.parent.mkdir(parents=True)
    history.path.write_text(content)
    assert history.load() == ()
    remember(history, "pair", "now")
    assert len(history.load()) == 1


def test_this_machine_is_the_same_machine_twice() -> None:
    machine = this_machine(())
    assert machine.key == this_machine(()).key
    assert machine.cores >= 1
    assert machine.cpu
    assert machine.key != Machine("x", machine.cores, machine.memory, machine.system).key
