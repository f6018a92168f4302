"""Batch's long checks: kills at random moments, a million rows, the reference job on the real tier, and what
batch gains by order, takes of an idle engine and gives back."""

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil

from batch.reference import classify_rows
from configs.deployment import DEFAULT_CONFIG, LlmConfig
from loadtests import batch_harvest, batch_order, batch_reclaim, batch_rows
from serve_apps import running
from tests.batch.test_job import Bench, killed_and_resumed
from tests.support.batch_engine import batch_engine
from tests.support.cli import run_firstclause
from tests.support.deployment import own_deployment
from tests.verify.section import Part

VICTIMS = ("ray::BatchWorker", "ray::MapWorker", "power", "ray::BatchWorker", "ray::MapWorker", "power")
ROWS = 1_000_000
GROWTH_MAX = 0.10
REAL_ROWS, LETTERS = 80, 480
PLAN_WITHIN = 0.10
WAIT_S = 1800
HARVEST_S, BURSTS = 90.0, 10
Say = Callable[[str], None]


def verify(say: Say) -> Part:
    short: list[str] = []
    kills = [_stub_kill(victim, say) for victim in VICTIMS]
    say("kills on the real engine, and the reference job")
    real, reference = _on_the_real_tier(say)
    short += [line for line in (*kills, real) if line]
    say(f"{ROWS:,} rows")
    rows = batch_rows.perform(ROWS, say)
    if rows["memory_growth"] > GROWTH_MAX:
        short.append(
            f"memory grew by {rows['memory_growth']:.0%} from a tenth of the rows, not {GROWTH_MAX:.0%} at most"
        )
    text = [
        _text(len(kills) + 1, sum(map(bool, (*kills, real))), rows, reference),
        _order(say, short),
        _harvest(say, short),
        _simulated(say, short),
        _reclaim(say),
    ]
    return Part("\n".join(text), short)


def _stub_kill(victim: str, say: Say) -> str:
    """What is wrong after one kill at a random moment; '' where nothing is."""
    after_rows = random.randrange(5, 280)
    say(f"{victim} is killed after {after_rows} of 300 rows")
    with tempfile.TemporaryDirectory() as folder, batch_engine() as engine, ExitStack() as heir:
        bench = Bench(Path(folder), engine)
        with bench.started() as cluster:
            try:
                if victim == "power":
                    killed_and_resumed(bench, after_rows, cluster.kill, lambda: heir.enter_context(bench.started()))
                else:
                    killed_and_resumed(bench, after_rows, lambda: cluster.find(victim).kill())
            except AssertionError as error:
                return f"{victim} killed after {after_rows} rows: {error}"
    return ""


def _on_the_real_tier(say: Say) -> tuple[str, dict[str, Any]]:
    """The worker and the API's process killed while the real engine answers; then the reference job."""
    with own_deployment() as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        wrong = _real_kill(client)
        say(f"the reference job, {LETTERS} letters")
        with tempfile.TemporaryDirectory() as folder:
            done = run_firstclause(
                "batch", "reference", "--limit", str(LETTERS), "--out", f"{folder}/job", "--json", timeout_s=WAIT_S
            )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
    return wrong, found


def _real_kill(client: httpx.Client) -> str:
    data = "".join(json.dumps(row) + "\n" for row in classify_rows(LlmConfig().model, REAL_ROWS))
    file = client.post("/v1/files", data={"purpose": "batch"}, files={"file": ("rows.jsonl", data)}).json()["id"]
    asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    id = client.post("/v1/batches", json=asked).json()["id"]
    for title, rows in (("ray::BatchWorker", REAL_ROWS // 4), ("ServeReplica:batches", REAL_ROWS // 2)):
        _wait(client, id, lambda one, rows=rows: one["request_counts"]["completed"] >= rows)  # type: ignore[misc]
        _find(title).kill()
    one = _wait(client, id, lambda one: one["status"] in ("completed", "failed", "expired", "cancelled"))
    if one["status"] != "completed" or not one["output_file_id"]:
        return f"the real engine's batch is {one['status']}"
    lines = client.get(f"/v1/files/{one['output_file_id']}/content").text.splitlines()
    found = Counter(json.loads(line)["custom_id"] for line in lines)
    wanted = Counter(f"letter-{number}" for number in range(REAL_ROWS))
    return "" if found == wanted else f"real engine: {len(wanted - found)} rows lost, {len(found - wanted)} doubled"


def _wait(client: httpx.Client, id: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            one: dict[str, Any] = client.get(f"/v1/batches/{id}").raise_for_status().json()
        except httpx.HTTPError:  # its process was killed a moment ago
            time.sleep(1)
            continue
        if until(one):
            return one
        time.sleep(0.2)
    raise RuntimeError(f"waited {WAIT_S} s: {one}")


def _find(title: str) -> psutil.Process:
    record = running.read()
    assert record is not None
    for process in [child for one in record.leftovers() for child in one.children(recursive=True)]:
        if title in " ".join(process.cmdline()):
            return process
    raise RuntimeError(f"no {title} runs")


def _text(kills: int, wrong: int, rows: dict[str, Any], reference: dict[str, Any]) -> str:
    table = "\n".join(
        f"| {name} | {run['rows']:,} | {run['rows_per_s']:,.0f} | {run['peak_bytes'] / 2**20:,.0f} | "
        f"{'' if run['resume_s'] is None else format(run['resume_s'], '.1f')} |"
        for name, run in rows["runs"].items()
    )
    passes = "\n".join(_pass(name, one) for name, one in reference.items())
    return f"""### Kills

{kills} at random moments (the worker, the actor that asks the engine, everything at once; on the real engine the worker
and the API's process): {wrong} lost, doubled or paid again for a finished row. Three more are in `make test`.

### The job alone

An engine that answers at once, in the worker; Parquet in and out; load average {os.getloadavg()[0]:.1f} at the end.
Memory of the tenth to the whole: {rows["memory_growth"]:+.1%}. Resume: from the new process's start to its first row.

| run | rows | rows a second | highest memory MiB | resume s |
|---|---|---|---|---|
{table}

### The reference job

`firstclause batch reference --limit {LETTERS}` on configs/local.yaml's tier. GPU-hours by the profile's rates; aim: the
plan within {PLAN_WITHIN:.0%} of what was measured.

| pass | rows | wall s | prompt tokens | cached | output | GPU-hours planned | measured | ratio |
|---|---|---|---|---|---|---|---|---|
{passes}
"""


def _pass(name: str, one: dict[str, Any]) -> str:
    planned, measured = one["plan"]["planned"], one["plan"]["measured"]
    wall_s = one["completed_at"] - one["in_progress_at"]
    hours, ratio = (planned["gpu_hours"], measured["gpu_hours"]), measured["gpu_hours"] / planned["gpu_hours"]
    return (
        f"| {name} | {measured['rows']:.0f} | {wall_s} | {measured['prompt_tokens']:.0f} | "
        f"{measured['cached_tokens'] / measured['prompt_tokens']:.0%} | {measured['output_tokens']:.0f} | "
        f"{hours[0]:.4f} | {hours[1]:.4f} | {ratio:.2f} |"
    )


def _order(say: Say, short: list[str]) -> str:
    letters = list(classify_rows(LlmConfig().model, LETTERS))
    found = batch_order.perform(letters, DEFAULT_CONFIG, say)
    short += batch_order.short(found)
    rows = "\n".join(
        f"| {name} | {one['asked']} | {one['wall_s']:.0f} | {one['cached_share']:.0%} |"
        for name, one in found["passes"].items()
    )
    return f"""### Order

`firstclause loadtest batch --case order`: {found["rows"]} letters to {found["prefixes"]} departments, interleaved,
{found["doubled_share"]:.1%} of them sent twice, {found["in_flight"]} in flight; the prefixes are
{found["prefix_tokens"]:,} tokens, KV memory holds {found["kv_tokens"]:,.0f}. The peer is ray.data.llm's Serve stage in
file order. By order alone the job is {found["ratio"]:.2f} times as fast (floor: {batch_order.RATIO_MIN:g}), with equal
rows asked once {found["ratio_deduplicated"]:.2f} times.

| pass | rows asked | wall s | cached |
|---|---|---|---|
{rows}
"""


def _harvest(say: Say, short: list[str]) -> str:
    found = batch_harvest.perform(HARVEST_S, DEFAULT_CONFIG, say)
    short += batch_harvest.short(found)
    rows = "\n".join(
        f"| {name} | {arm['requests']} | {arm['failed']} | {arm['p95_ttft_ms']['value']:.0f} | "
        f"{arm['longest_step_ms']:.0f} | {arm['steps_over_alone']:.1f} | {arm['rows_per_s']:.2f} | "
        f"{arm['soaked_share']:.0%} |"
        for name, arm in found["arms"].items()
    )
    return f"""### Harvest

`firstclause loadtest batch --case harvest`, {HARVEST_S:g} s an arm. Batch alone does
{found["solo_rows_per_s"]:.2f} rows a second; without rows the engine is idle {found["idle_share"]:.0%} of the time;
both multiplied are 100 % of what is idle. Floors, of the last arm: a step of {batch_harvest.STEP_MS_MAX:g} ms at most,
p95 TTFT up by {batch_harvest.STEPS_MAX:g} of its longest steps at most (aim: {batch_harvest.STEPS_AIM:g}), and
{batch_harvest.SOAKED_MIN:.0%} of what is idle.

| arm | requests | failed | p95 TTFT ms | longest step ms | steps over alone | rows a second | of what is idle |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _simulated(say: Say, short: list[str]) -> str:
    found = batch_harvest.perform_simulated(say)
    short += batch_harvest.short_simulated(found)
    rows = "\n".join(
        f"| {name} | {arm['p95_ttft_ms']:.1f} | {arm['over_alone']:.2f} | {arm['soaked_share']:.0%} |"
        for name, arm in found["arms"].items()
    )
    return f"""### Harvest on a GPU's rates

The simulator on configs/fleets/harvest.yaml, idle {found["idle_share"]:.0%}. Floors, of the first arm: p95 TTFT
{batch_harvest.SIMULATED_P95_MAX:.2f} times at most, {batch_harvest.SIMULATED_SOAKED_MIN:.0%} of what is idle.

| arm | p95 TTFT ms | over interactive only | of what is idle |
|---|---|---|---|
{rows}
"""


def _reclaim(say: Say) -> str:
    found = batch_reclaim.perform(BURSTS, DEFAULT_CONFIG, say)
    taken = found["reclaim_s"]
    return f"""### Reclaim

`firstclause loadtest batch --case reclaim`: {found["bursts"]} bursts of {found["requests_a_burst"]} requests at voice
priority (two cores hold no burst of calls), {found["idle"]} upon no row, {found["held"]} that rows outlasted. From the
burst to no row in flight: p50 {taken["p50"]:.2f} s, p95 {taken["p95"]:.2f} s.
"""
