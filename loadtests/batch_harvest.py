"""`loadtest batch --case harvest`: batch beside callers in a square wave, in the six arms of llm-d's batch gateway.

Every arm is the product's job on one tier; what differs is how many rows it may have in flight and their priority.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.deployment import load_deployment
from configs.schema import parse
from loadtests.batch_bench import Bench, Row, bench, fixed, read_rows
from loadtests.batch_soak import begin, beside
from loadtests.load import LlmLoad
from planning.simulator.run import run as simulate
from planning.simulator.scenario import read_scenario
from telemetry.spans import covered_s
from telemetry.statistics import Estimate, percentile

STEP_SLO_MS = 120.0
"""The tier's; the longest step is measured, and a floor of its own."""
IDLE_PER_S, BURST_PER_S, HALF_PERIOD_S = 0.2, 1.5, 15.0
PROMPT_WORDS, OUTPUT_TOKENS = 12, 16
ROWS_PER_S_MAX = 20
STEPS_MAX, STEPS_AIM, STEP_MS_MAX, SOAKED_MIN = 2.0, 1.0, 150.0, 0.60
SIMULATED_P95_MAX, SIMULATED_SOAKED_MIN = 1.10, 0.80
ALONE, SOLO, OURS = "interactive only", "batch only", "AIMD, priority and queue gate"
SCENARIO = Path(__file__).parents[1] / "configs" / "fleets" / "harvest.yaml"
SIMULATED_OURS = f"packed, {OURS.replace('queue ', '')}"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Arm:
    """How rows are let in: keys of planning.policies.harvest that replace the product's; None: no rows."""

    name: str
    rules: Mapping[str, float] | None
    priority: str = "batch"
    """The rows'; callers are `interactive`."""


@dataclass(frozen=True)
class Felt:
    """What an arm came to. TTFT from the due moment, as callers see it; a step by the engine's own clock."""

    requests: int
    failed: int
    p95_ttft_ms: Estimate
    engine_p95_ttft_ms: float
    longest_step_ms: float
    idle_share: float
    rows_per_s: float

    def document(self) -> dict[str, Any]:
        return asdict(self)


def arms(target_ttft_ms: float, ceiling: int) -> tuple[Arm, ...]:
    """Those with rows. `ceiling`: the most that the product would have in flight."""
    ungated = {"queue_gate": 1e9, "reclaim_queue": 1e9}
    target = {"target_ttft_ms": target_ttft_ms}
    return (
        Arm("naive", fixed(5 * ceiling), "interactive"),
        Arm("ungated", fixed(ceiling), "interactive"),
        Arm("AIMD", target | ungated, "interactive"),
        Arm("AIMD with priority", target | ungated),
        Arm(OURS, target),
    )


def perform(seconds: float, config: Path, say: Say) -> dict[str, Any]:
    """Every arm for so many seconds of callers. Raises ProcessError, RuntimeError."""
    deployment = load_deployment(config)
    ceiling = deployment.rows_in_flight
    say("starting a deployment for the measurement")
    with tempfile.TemporaryDirectory() as name, bench(config, {"llm": {"step_slo_ms": STEP_SLO_MS}}) as tier:
        folder = Path(name)
        model = deployment.llm.model

        def felt(arm: Arm) -> Felt:
            say(arm.name)
            own = folder / arm.name.replace(" ", "-")
            own.mkdir()
            return _felt(tier, arm, own, model, seconds)

        say(SOLO)
        solo_per_s = _solo(tier, folder, model, ceiling, seconds / 2)
        found = {ALONE: felt(Arm(ALONE, None))}
        target_ms = found[ALONE].engine_p95_ttft_ms + STEP_SLO_MS
        found |= {arm.name: felt(arm) for arm in arms(target_ms, ceiling)}
    return figures(found, solo_per_s) | {"target_ttft_ms": target_ms, "seconds": seconds}


def figures(found: Mapping[str, Felt], solo_per_s: float) -> dict[str, Any]:
    """Every arm beside the one without rows: by how many of its longest steps p95 is up, and its soaked share, which is
    its rows a second over those of batch alone times the engine's idle share."""
    alone = found[ALONE]
    lines = {}
    for name, felt in found.items():
        steps = (felt.p95_ttft_ms.value - alone.p95_ttft_ms.value) / felt.longest_step_ms
        soaked = felt.rows_per_s / (solo_per_s * alone.idle_share)
        lines[name] = felt.document() | {"steps_over_alone": steps, "soaked_share": soaked}
    return {"arms": lines, "solo_rows_per_s": solo_per_s, "idle_share": alone.idle_share}


def short(found: Mapping[str, Any]) -> list[str]:
    """The floors that are not met on the tier."""
    ours = found["arms"][OURS]
    lines = []
    if ours["longest_step_ms"] > STEP_MS_MAX:
        lines.append(f"harvest: the longest step is {ours['longest_step_ms']:.0f} ms, not {STEP_MS_MAX:g} at most")
    if ours["steps_over_alone"] > STEPS_MAX:
        lines.append(
            f"harvest: callers' p95 TTFT is up by {ours['steps_over_alone']:.1f} steps of "
            f"{ours['longest_step_ms']:.0f} ms, not {STEPS_MAX:g}"
        )
    if ours["soaked_share"] < SOAKED_MIN:
        lines.append(f"harvest: batch gets {ours['soaked_share']:.0%} of what is idle, not {SOAKED_MIN:.0%}")
    return lines


def perform_simulated(say: Say) -> dict[str, Any]:
    """The same arms on a GPU's published rates, by the same policy (configs/fleets/harvest.yaml)."""
    say("the simulator")
    scenario = read_scenario(SCENARIO)
    return figures_simulated(simulate(scenario, SCENARIO.parent, scenario.seed))


def figures_simulated(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of a simulated run's arms, as `figures` has them; tokens stand for rows, which differ in length."""
    alone, solo = result["arms"][ALONE], result["arms"][SOLO]
    tenant = next(iter(alone["tenants"]))
    alone_ms = alone["tenants"][tenant]["ttft_ms"]["p95"]
    idle_tokens_per_s = solo["batch"]["tokens_per_s"] * (1 - alone["callers_share"])
    lines = {}
    for name, arm in result["arms"].items():
        if name == SOLO:
            continue
        p95_ms = arm["tenants"][tenant]["ttft_ms"]["p95"]
        tokens_per_s = arm["batch"]["tokens_per_s"] if "batch" in arm else 0.0
        lines[name] = {
            "p95_ttft_ms": p95_ms, "over_alone": p95_ms / alone_ms, "batch_tokens_per_s": tokens_per_s,
            "soaked_share": tokens_per_s / idle_tokens_per_s,
        }  # fmt: skip
    return {"arms": lines, "idle_share": 1 - alone["callers_share"]}


def short_simulated(found: Mapping[str, Any]) -> list[str]:
    ours = found["arms"][SIMULATED_OURS]
    lines = []
    if ours["over_alone"] > SIMULATED_P95_MAX:
        lines.append(f"simulated harvest: p95 is {ours['over_alone']:.2f} times, not {SIMULATED_P95_MAX:g} at most")
    if ours["soaked_share"] < SIMULATED_SOAKED_MIN:
        lines.append(
            f"simulated harvest: batch gets {ours['soaked_share']:.0%} of what is idle, not {SIMULATED_SOAKED_MIN:.0%}"
        )
    return lines


def felt_of(
    samples: Sequence[Mapping[str, Any]], rows: Sequence[Row], longest_step_ms: float, begun_s: float, duration_s: float
) -> Felt:
    """Of the callers' samples, in seconds of their run, and the rows that were answered within it."""
    good = [sample for sample in samples if sample["outcome"] == "ok" and sample["engine_ttft_ms"] is not None]
    ttft_ms = [(sample["first_token_s"] - sample["due_s"]) * 1000 for sample in good]
    engine_ms = [sample["engine_ttft_ms"] for sample in good]
    # What a caller was in the engine: from its arrival there, by the engine's own TTFT, to its reply's end.
    spans = [
        (max(0.0, sample["first_token_s"] - sample["engine_ttft_ms"] / 1000), min(sample["ended_s"], duration_s))
        for sample in good
    ]
    return Felt(
        len(samples), len(samples) - len(good), percentile(ttft_ms, 0.95), percentile(engine_ms, 0.95).value,
        longest_step_ms, 1 - covered_s(spans) / duration_s, rows_per_s(rows, begun_s, duration_s),
    )  # fmt: skip


def rows_per_s(rows: Sequence[Row], begun_s: float, duration_s: float) -> float:
    return sum(row.good and begun_s <= row.end_s < begun_s + duration_s for row in rows) / duration_s


def _felt(tier: Bench, arm: Arm, folder: Path, model: str, seconds: float) -> Felt:
    if arm.rules is None:
        tier.begin(folder, None)
    else:
        begin(tier, folder, model, int(seconds * ROWS_PER_S_MAX), arm.rules, arm.priority)
    run, begun_s = beside(_load(tier.url, seconds), folder / "callers")
    longest_step_ms = tier.end()["longest_step_ms"]
    return felt_of(run.samples, read_rows(folder), longest_step_ms, begun_s, run.duration_s)


def _solo(tier: Bench, folder: Path, model: str, ceiling: int, seconds: float) -> float:
    """Rows a second with the engine to itself."""
    own = folder / "solo"
    own.mkdir()
    begin(tier, own, model, int(seconds * ROWS_PER_S_MAX), fixed(ceiling))
    begun_s = time.monotonic()
    time.sleep(seconds)
    tier.end()
    return rows_per_s(read_rows(own), begun_s, seconds)


def _load(url: str, seconds: float) -> LlmLoad:
    """Idle, then a burst, over and over."""
    wave = [{"rate_per_s": rate, "duration_s": HALF_PERIOD_S} for rate in (IDLE_PER_S, BURST_PER_S)]
    data = {
        "url": url, "arrivals": {"kind": "poisson", "stages": wave * max(1, round(seconds / 2 / HALF_PERIOD_S))},
        "prompts": {"tokens": {"mean": PROMPT_WORDS}}, "output_tokens": {"mean": OUTPUT_TOKENS}, "ignore_eos": True,
    }  # fmt: skip
    return parse(LlmLoad, data, "harvest")
