"""`loadtest batch --case reclaim`: from a burst of urgent requests to no row in flight.

The burst is of requests at voice priority, as the voice application's are: on two cores two calls are all that it
takes, and two do not need the whole engine. As many come as it runs at once: of more, the tier's router would refuse
some.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from configs.deployment import load_deployment
from configs.schema import parse
from loadtests.batch_bench import Row, bench, read_rows
from loadtests.batch_soak import begin, beside
from loadtests.load import LlmLoad
from telemetry.statistics import percentile

LULL_S, BURST_S = 12.0, 0.1
"""Between bursts rows come back; a burst is due within a tenth of a second."""
OUTPUT_TOKENS = 32
TENANTS = {"anonymous": "caller", "tenants": {"caller": {"class": "voice"}, "batch": {"class": "batch"}}}
Say = Callable[[str], None]


def perform(bursts: int, config: Path, say: Say) -> dict[str, Any]:
    """Raises ProcessError, RuntimeError."""
    deployment = load_deployment(config)
    size = deployment.llm.seats
    say("starting a deployment for the measurement")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "tenants.yaml").open("w") as file:
            YAML(typ="safe").dump(TENANTS, file)
        with bench(config, {"gateway": {"tenants": str(folder / "tenants.yaml")}}) as tier:
            job = folder / "job"
            job.mkdir()
            begin(tier, job, deployment.llm.model, bursts * 400)
            say(f"{bursts} bursts of {size} requests at voice priority")
            stages = [{"rate_per_s": 0, "duration_s": LULL_S}, {"rate_per_s": size / BURST_S, "duration_s": BURST_S}]
            data = {
                "url": tier.url, "arrivals": {"kind": "constant", "stages": stages * bursts}, "ignore_eos": True,
                "prompts": {"tokens": {"mean": 12}}, "output_tokens": {"mean": OUTPUT_TOKENS}, "late_ms": 200,
            }  # fmt: skip
            run, begun_s = beside(parse(LlmLoad, data, "reclaim"), folder / "callers")
            report = tier.end()
            rows = read_rows(job)
    due_s = [begun_s + LULL_S + number * (LULL_S + BURST_S) for number in range(bursts)]
    failed = sum(sample["outcome"] != "ok" for sample in run.samples)
    return figures(due_s, rows) | {
        "requests_a_burst": size, "callers_failed": failed, "product_p95_s": report["reclaim_p95_s"],
    }  # fmt: skip


def figures(due_s: Sequence[float], rows: Sequence[Row]) -> dict[str, Any]:
    """Of bursts at these times. One that came upon no row is `idle`; one from which batch never let go before the next
    counts as `held`, with the time that there was."""
    taken_s, idle, held = [], 0, 0
    ends = [*due_s[1:], max([*due_s, *(row.end_s for row in rows)], default=0.0)]
    for begin_s, end_s in zip(due_s, ends, strict=True):
        if not in_flight(rows, begin_s):
            idle += 1
            continue
        free_s = let_go_s(rows, begin_s)
        held += free_s >= end_s
        taken_s.append(min(free_s, end_s) - begin_s)
    p = {"p50": float(np.median(taken_s)), "p95": percentile(taken_s, 0.95).value} if taken_s else {}
    return {"bursts": len(due_s), "idle": idle, "held": held, "reclaim_s": {**p, "each": taken_s}}


def in_flight(rows: Sequence[Row], at_s: float) -> int:
    return sum(row.begin_s <= at_s < row.end_s for row in rows)


def let_go_s(rows: Sequence[Row], from_s: float) -> float:
    """The first moment from `from_s` on at which no row is in flight."""
    at_s = from_s
    for row in sorted(rows, key=lambda row: row.begin_s):
        if row.begin_s > at_s:
            break
        at_s = max(at_s, row.end_s)
    return at_s
