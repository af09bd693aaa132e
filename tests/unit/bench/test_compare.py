"""Medians, paired ratios, geometric means, worst cases and where answers part."""

from __future__ import annotations

import pytest

from localspec.bench.compare import best_of, compare, warm_view
from localspec.bench.contestants import EngineContestant, Question
from localspec.bench.differences import Difference, first_difference, with_logits
from localspec.bench.methods import parse_method
from localspec.bench.runner import BenchRun, Plan
from localspec.bench.session import noise_notices
from localspec.bench.workloads import BenchPrompt, Workload
from localspec.engine.settings import ChatMessage
from localspec.events import DrafterCounts, Speculation
from tests.support.bench_fakes import FakeEngine, FakeEngineWithLogits, sample

LONG = tuple(range(41))


def changed(index: int, token: int) -> tuple[int, ...]:
    return (*LONG[:index], token, *LONG[index + 1 :])


def test_a_prompts_speedup_is_the_median_of_ratios_within_a_repeat() -> None:
    # The machine is half as fast in the second repeat; the ratios stay 2, 2 and 3.
    samples = [
        sample("plain", rate=10.0, repeat=0),
        sample("auto", rate=20.0, repeat=0),
        sample("plain", rate=5.0, repeat=1),
        sample("auto", rate=10.0, repeat=1),
        sample("plain", rate=10.0, repeat=2),
        sample("auto", rate=30.0, repeat=2),
    ]
    result = next(p for p in compare(samples).prompts if p.method == "auto")
    assert result.speedup == pytest.approx(2.0)
    assert result.speedup_low == pytest.approx(2.0)
    assert result.speedup_high == pytest.approx(3.0)
    assert (result.rate, result.rate_low, result.rate_high) == pytest.approx((20.0, 10.0, 30.0))


def test_noise_is_the_spread_of_repeats_and_unknown_for_one() -> None:
    samples = [
        sample("plain", rate=10.0, repeat=0),
        sample("plain", rate=8.0, repeat=1),
        sample("auto", rate=20.0, repeat=0),
        sample("auto", rate=24.0, repeat=1),
    ]
    comparison = compare(samples)
    plain, auto = comparison.of("plain"), comparison.of("auto")
    assert plain is not None
    assert auto is not None
    assert plain.noise == pytest.approx(2.0 / 9.0)
    assert auto.noise == pytest.approx(1.0 / 2.5)
    (notice,) = noise_notices(comparison)
    assert "±11 %" in notice.message
    once = compare([s for s in samples if s.repeat == 0])
    assert all(group.noise is None for group in once.summary)
    assert noise_notices(once) == ()


async def test_a_drifting_machine_does_not_bend_the_result() -> None:
    engine = FakeEngine({"none": 10.0, "auto": 17.0}, drift=lambda call: 1.0 if call <= 6 else 0.25)
    prompts = tuple(BenchPrompt(name, "w", (name,)) for name in "ab")
    plan = Plan((Workload("w", "w", 1, prompts),), repeats=3)
    methods = [EngineContestant(engine, parse_method(name)) for name in ("plain", "auto")]
    comparison = compare(await BenchRun(plan, methods).run())
    auto = comparison.of("auto")
    assert auto is not None
    assert auto.speedup == pytest.approx(1.7)
    assert auto.worst == pytest.approx(1.7)
    assert auto.identical == 2
    assert auto.rest_share == pytest.approx(0.1)


def test_workloads_are_geometric_means_and_name_their_worst_prompt() -> None:
    samples = [
        *(sample("plain", f"p{i}", 10.0) for i in range(2)),
        sample("auto", "p0", 40.0),
        sample("auto", "p1", 10.0),
        sample("plain", "q", 10.0, workload="v"),
        sample("auto", "q", 20.0, workload="v"),
    ]
    comparison = compare(samples)
    group = comparison.group("auto", "w")
    assert group is not None
    assert group.speedup == pytest.approx(2.0)
    assert (group.worst, group.best) == pytest.approx((1.0, 4.0))
    assert (group.worst_prompt, group.best_prompt) == ("p1", "p0")
    # 80 tokens in 1 s and 4 s.
    assert group.decode_tokens_per_second == pytest.approx(16.0)
    overall = comparison.of("auto")
    assert overall is not None
    assert overall.speedup == pytest.approx(2.0)
    plain = comparison.of("plain")
    assert plain is not None
    assert plain.speedup == 1.0


def test_plain_is_the_baseline_wherever_it_was_measured() -> None:
    comparison = compare([sample("auto", rate=20.0), sample("plain", rate=10.0)])
    assert comparison.methods == ("plain", "auto")
    auto = comparison.of("auto")
    assert auto is not None
    assert auto.speedup == pytest.approx(2.0)


def test_answers_too_short_to_be_timed_take_no_part_in_speedups() -> None:
    short = tuple(range(5))
    samples = [
        sample("plain", "long", 10.0),
        sample("auto", "long", 12.0),
        sample("plain", "short", 10.0, tokens=short),
        sample("auto", "short", 1.0, tokens=short),
    ]
    auto = compare(samples).of("auto")
    assert auto is not None
    assert (auto.prompts, auto.timed, auto.identical) == (2, 1, 2)
    assert auto.worst == pytest.approx(1.2)
    everything = compare(samples, shortest=1).of("auto")
    assert everything is not None
    assert everything.worst == pytest.approx(0.1)


def test_counts_and_times_are_summed_and_shared_out() -> None:
    def spec(rounds: int) -> Speculation:
        return Speculation(
            "auto",
            rounds=rounds,
            drafted=2 * rounds,
            accepted=rounds,
            accepted_per_position=(rounds, 0),
            drafted_per_position=(rounds, rounds),
            propose_s=0.5,
            verify_s=1.0,
            by_drafter={"ngram": DrafterCounts(rounds, 2 * rounds, rounds)},
        )

    samples = [
        sample("plain", "p0", 10.0),
        sample("plain", "p1", 10.0),
        sample("auto", "p0", 20.0, speculation=spec(10)),
        sample("auto", "p1", 20.0, speculation=spec(30)),
    ]
    auto = compare(samples).of("auto")
    assert auto is not None
    assert auto.acceptance_rate == pytest.approx(0.5)
    assert auto.tokens_per_round == pytest.approx(2.0)
    assert auto.accepted_per_position == (40, 0)
    assert auto.by_drafter["ngram"] == DrafterCounts(40, 80, 40)
    # 4 s of decoding: 1 s proposing, 2 s verifying.
    assert auto.propose_share == pytest.approx(0.25)
    assert auto.verify_share == pytest.approx(0.5)
    assert auto.rest_share == pytest.approx(0.25)
    assert auto.prediction is not None


def test_a_program_that_tells_no_times_has_no_shares() -> None:
    samples = [sample("plain"), sample("server:plain")]
    server = compare(samples).of("server:plain")
    assert server is not None
    assert server.propose_share is None
    assert server.tokens_per_round is None
    assert server.prediction is None


def test_the_first_difference_of_any_repeat_is_reported() -> None:
    samples = [
        sample("plain", repeat=0),
        sample("plain", repeat=1),
        sample("auto", repeat=0),
        sample("auto", repeat=1, tokens=changed(7, 99)),
    ]
    comparison = compare(samples)
    assert comparison.differences() == (Difference("p1", 7, 7, 99),)
    auto = comparison.of("auto")
    assert auto is not None
    assert (auto.identical, auto.prompts) == (0, 1)


def test_identical_answers_have_no_difference() -> None:
    assert first_difference("p", sample("plain").reply, sample("auto").reply) is None


def test_an_answer_that_ends_earlier_differs_at_its_end() -> None:
    plain = sample("plain").reply
    shorter = sample("auto", tokens=LONG[:30], finish_reason="stop").reply
    assert first_difference("p", plain, shorter) == Difference("p", 30, 30, None)
    assert first_difference("p", shorter, plain) == Difference("p", 30, None, 30)


def test_an_unlisted_end_token_is_no_difference() -> None:
    with_end = sample("plain", finish_reason="stop").reply
    without = sample("server:plain", tokens=LONG[:-1], finish_reason="stop").reply
    assert first_difference("p", with_end, without) is None
    cut = sample("server:plain", tokens=LONG[:-1], finish_reason="length").reply
    assert first_difference("p", with_end, cut) is not None


async def test_differences_get_both_logits_from_an_engine_that_can_tell() -> None:
    difference = Difference("p1", 7, 7, 99)
    questions = {"p1": Question((ChatMessage("user", "x"),), 10)}
    replies = {"p1": sample("plain").reply}
    known = await with_logits([difference], questions, replies, FakeEngineWithLogits({}))
    assert known[difference] == Difference("p1", 7, 7, 99, 0.7, 9.9)
    assert known[difference].gap == pytest.approx(9.2)
    compared = compare([sample("plain"), sample("auto", tokens=changed(7, 99))], known=known)
    assert compared.differences()[0].logit == 9.9


async def test_differences_stay_without_logits_where_nobody_can_tell() -> None:
    difference = Difference("p1", 7, 7, 99)
    questions = {"p1": Question((ChatMessage("user", "x"),), 10)}
    known = await with_logits([difference], questions, {}, FakeEngine({}))
    assert known[difference] == difference


def test_cold_and_warm_samples_are_never_compared() -> None:
    with pytest.raises(ValueError, match="cold and warm"):
        compare([sample("plain"), sample("auto", warm=True)])


def test_warm_runs_are_held_against_cold_plain_decoding() -> None:
    samples = [
        sample("plain", rate=10.0),
        sample("auto", rate=15.0),
        sample("auto", rate=30.0, warm=True),
    ]
    warm = compare(warm_view(samples)).of("auto")
    assert warm is not None
    assert warm.speedup == pytest.approx(3.0)
    assert warm_view(samples[:2]) == ()


def test_the_best_setting_is_chosen_for_each_prompt_with_hindsight() -> None:
    samples = [
        sample("plain", "p0", 10.0),
        sample("plain", "p1", 10.0),
        sample("auto", "p0", 18.0),
        sample("auto", "p1", 30.0),
        sample("s:a", "p0", 20.0),
        sample("s:a", "p1", 10.0),
        sample("s:b", "p0", 10.0),
        sample("s:b", "p1", 15.0),
    ]
    comparison = compare([*samples, *best_of(samples, ["s:a", "s:b"], "s:best")])
    rates = {p.prompt: p.rate for p in comparison.prompts if p.method == "s:best"}
    assert rates == {"p0": pytest.approx(20.0), "p1": pytest.approx(15.0)}
    versus = comparison.versus("auto", "s:best")
    assert versus is not None
    assert versus.geomean == pytest.approx((0.9 * 2.0) ** 0.5)
    assert versus.worst == pytest.approx(0.9)
    assert versus.worst_prompt == "p0"
    assert comparison.versus("auto", "nobody") is None
