"""The figures of `loadtest batch`'s cases, from recordings of known lengths; no deployment."""

from pathlib import Path
from typing import Any

import pytest

from loadtests import batch_harvest, batch_order, batch_reclaim
from loadtests.batch_bench import Row, read_rows
from loadtests.batch_harvest import ALONE, OURS, SIMULATED_OURS, SOLO, Felt
from loadtests.batch_order import Pass
from loadtests.batch_soak import requests
from planning.policies.harvest import HarvestConfig, Online, start, step
from planning.simulator.scenario import read_scenario
from telemetry.statistics import Estimate


def request(prefix: str, text: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": prefix}, {"role": "user", "content": text}]
    return {"custom_id": "a", "body": {"messages": messages}}


# -- order -----------------------------------------------------------------------------------------------------------


def test_order_is_judged_without_what_deduplication_saves() -> None:
    asked = [request(f"p{number % 40}", str(number % 400)) for number in range(480)]
    found = batch_order.figures(asked, Pass(100, 480, 1000, 800), Pass(80, 400, 800, 700), Pass(140, 480, 1000, 10))
    assert (found["rows"], found["prefixes"], found["ratio"], found["ratio_deduplicated"]) == (480, 40, 1.4, 1.75)
    assert found["doubled_share"] == pytest.approx(80 / 480)
    assert [one["cached_share"] for one in found["passes"].values()] == [0.8, 0.01, 0.875]
    found |= {"prefix_tokens": 24_000, "kv_tokens": 23_301.7}
    assert batch_order.short(found) == ["order: 1.40 times as fast as the Serve stage in file order, not 1.5"]
    assert batch_order.short(found | {"ratio": 1.5}) == []
    assert "exceed the 23,302" in batch_order.short(found | {"ratio": 2, "prefix_tokens": 20_000})[0]
    assert batch_order.short(found | {"rows": 30}) == []


def test_a_row_of_ones_own_equals_no_other() -> None:
    one = request("p", "text")
    first, second = batch_order.own(one, "0"), batch_order.own(one, "1")
    assert first != second and "user" not in one["body"]
    assert batch_order.prefix_of(first) == batch_order.prefix_of(one) == "p"


def test_a_pass_counts_what_was_answered() -> None:
    rows = [Row(0, 1, True, 100, 60, 4), Row(0, 1, False), Row(1, 2, True, 100, 0, 4)]
    assert batch_order.pass_of(rows, 7) == Pass(7, 2, 200, 60)


def test_fixed_rules_hold_whatever_callers_feel() -> None:
    config = HarvestConfig.model_validate({"target_ttft_ms": 100, **batch_order.fixed(12)})
    state = start(config)
    for now_s, online in enumerate([Online(900, 30, 0.0), None, Online(10, 0), Online(None, 0, 0.2, 5)]):
        state = step(config, state, online, None, now_s * 10)
        assert state.concurrency == 12


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_rows(tmp_path) == []
    line = '{"prompt_tokens": 3, "cached_tokens": 2, "output_tokens": 1, "begin_s": 0.5, "end_s": 1.5, "good": true}\n'
    (tmp_path / "rows.jsonl").write_text(line)
    assert read_rows(tmp_path) == [Row(0.5, 1.5, True, 3, 2, 1)]


# -- reclaim ---------------------------------------------------------------------------------------------------------


def test_batch_has_let_go_when_no_row_is_in_flight() -> None:
    rows = [Row(0, 4, True), Row(3, 6, False), Row(5.5, 5.8, True), Row(9, 12, True)]
    assert batch_reclaim.let_go_s(rows, 2) == 6
    assert batch_reclaim.let_go_s(rows, 7) == 7
    assert [batch_reclaim.in_flight(rows, at_s) for at_s in (3.5, 6, 8, 9)] == [2, 0, 0, 1]


def test_bursts_without_a_row_and_bursts_that_rows_outlast_are_told_apart() -> None:
    rows = [Row(0, 11, False), Row(12, 12.5, False), Row(28, 60, True)]
    found = batch_reclaim.figures([10, 20, 30, 40], rows)
    assert (found["bursts"], found["idle"], found["held"]) == (4, 1, 2)
    assert found["reclaim_s"]["each"] == [1, 10, 20]
    assert found["reclaim_s"]["p50"] == 10
    assert batch_reclaim.figures([10], [])["reclaim_s"] == {"each": []}


# -- harvest ---------------------------------------------------------------------------------------------------------


def felt(p95_ms: float, step_ms: float, rows_per_s: float, idle_share: float = 0.5) -> Felt:
    return Felt(100, 0, Estimate(p95_ms, None, None, 100, 100), p95_ms - 20, step_ms, idle_share, rows_per_s)


def test_callers_and_batch_are_judged_by_the_arm_without_the_other() -> None:
    found = batch_harvest.figures({ALONE: felt(100, 60, 0), OURS: felt(300, 100, 1.6, 0.3)}, solo_per_s=5)
    ours = found["arms"][OURS]
    assert ours["steps_over_alone"] == pytest.approx(2.0)
    assert ours["soaked_share"] == pytest.approx(1.6 / (5 * 0.5))
    assert batch_harvest.short(found) == []
    worse = batch_harvest.figures({ALONE: felt(100, 60, 0), OURS: felt(500, 160, 1.0)}, solo_per_s=5)
    assert [line.partition(":")[0] for line in batch_harvest.short(worse)] == ["harvest"] * 3


def test_an_arm_is_made_of_good_samples_and_of_rows_in_its_time() -> None:
    def sample(due_s: float, first_s: float, ended_s: float, outcome: str = "ok") -> dict[str, Any]:
        engine_ms = 50.0 if outcome == "ok" else None
        return {"due_s": due_s, "first_token_s": first_s, "ended_s": ended_s, "outcome": outcome,
                "engine_ttft_ms": engine_ms}  # fmt: skip

    samples = [sample(1, 1.1, 2.05), sample(1.5, 1.6, 3.05), sample(4, 4.1, 99, "timeout"), sample(9, 9.05, 12)]
    rows = [Row(99, 101, True), Row(100, 109.9, True), Row(100, 105, False), Row(100, 110, True)]
    found = batch_harvest.felt_of(samples, rows, 80, begun_s=100, duration_s=10)
    assert (found.requests, found.failed, found.longest_step_ms) == (4, 1, 80)
    assert found.p95_ttft_ms.value == pytest.approx(100)
    # in the engine: 1.05 to 3.05, and 9 to the end
    assert found.idle_share == pytest.approx(0.7)
    assert found.rows_per_s == pytest.approx(0.2)


def test_the_arms_are_the_simulators() -> None:
    simulated = {arm.name: arm for arm in read_scenario(batch_harvest.SCENARIO).arms}
    arms = batch_harvest.arms(200, 12)
    assert {ALONE, *(arm.name for arm in arms)} <= set(simulated)
    assert {SOLO, SIMULATED_OURS} <= set(simulated)
    for arm in arms:
        soak = simulated[arm.name].soak
        assert soak is not None and (soak.priority > 0) == (arm.priority == "batch")
        HarvestConfig.model_validate(
            {"target_ttft_ms": 100, "ceiling": 12, "start": 2, "floor": 0, **(arm.rules or {})}
        )


def test_the_simulated_arms_have_the_same_figures() -> None:
    def arm(p95_ms: float, tokens_per_s: float | None) -> dict[str, Any]:
        batch = {} if tokens_per_s is None else {"batch": {"tokens_per_s": tokens_per_s}}
        return {"tenants": {"callers": {"ttft_ms": {"p95": p95_ms}}}, "callers_share": 0.25, **batch}

    found = batch_harvest.figures_simulated(
        {"arms": {ALONE: arm(20, None), SOLO: arm(0, 1000), SIMULATED_OURS: arm(23, 500)}}
    )
    ours = found["arms"][SIMULATED_OURS]
    assert (ours["over_alone"], ours["soaked_share"]) == (pytest.approx(1.15), pytest.approx(500 / 750))
    assert len(batch_harvest.short_simulated(found)) == 2


def test_soaking_rows_are_alike_and_none_equal() -> None:
    rows = list(requests("m", 50))
    assert len({str(row["body"]["messages"]) for row in rows}) == 50
    assert len({len(row["body"]["messages"][0]["content"].split()) for row in rows}) == 1
    assert {row["body"]["max_tokens"] for row in rows} == {32}
