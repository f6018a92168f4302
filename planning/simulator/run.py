"""A scenario's arms, run one after the other on the same requests, and their figures side by side."""

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from planning.simulator.fleet import Fleet
from planning.simulator.results import Outcomes, against_theory, tenant_summary
from planning.simulator.scenario import Arm, Scenario
from planning.simulator.workload import Workload

SLICES = 200
LITTLES_LAW_TOLERANCE = 1e-6

Progress = Callable[[str, float], None]
"""Called with an arm's name and how much of its run is done, 0 to 1."""


class LawBroken(AssertionError):
    """Little's law does not hold: the simulator lost a request, or counted or timed one wrongly. A bug."""


def run(scenario: Scenario, folder: Path, seed: int, progress: Progress = lambda name, share: None) -> dict[str, Any]:
    """All arms' figures. `folder` is where traces are looked up. Raises InputError for a bad trace, and LawBroken."""
    workload = Workload(scenario.streams, scenario.batch, scenario.duration_s, seed, folder)
    arms = {}
    for arm in scenario.arms:
        arms[arm.name] = run_arm(scenario, arm, workload, seed, partial(progress, arm.name))
    return {"title": scenario.title, "seed": seed, "requests": len(workload), "arms": arms}


def run_arm(
    scenario: Scenario, arm: Arm, workload: Workload, seed: int, progress: Callable[[float], None] = lambda share: None
) -> dict[str, Any]:
    """One arm's figures."""
    fleet = Fleet(scenario, arm, workload, seed)
    gc.collect()
    gc.freeze()  # the run makes no cycles; without this each full collection walks all requests again
    try:
        fleet.start()
        slice_s = scenario.duration_s / SLICES
        end_s, limit_s = 0.0, scenario.duration_s + scenario.drain_s
        while not fleet.over and end_s < limit_s:
            end_s = min(end_s + slice_s, limit_s)
            fleet.engine.run(end_s)
            progress(min(1.0, end_s / scenario.duration_s))
    finally:
        gc.unfreeze()
    return figures(fleet)


def figures(fleet: Fleet) -> dict[str, Any]:
    """What came out of a run that is over."""
    scenario, arm = fleet.scenario, fleet.arm
    unfinished = fleet.law.inside
    error = None
    if not unfinished:
        error = fleet.law.error()
        if error > LITTLES_LAW_TOLERANCE:
            raise LawBroken(f"{arm.name}: L and λ·W differ by {error:.2e}")
    end_s = max(scenario.duration_s, fleet.engine.now_s)
    hours = [
        ((end_s if r.ended_s is None else r.ended_s) - r.started_s)
        / 3600
        * (r.ended_s is None or r.ended_s > r.started_s)
        for r in fleet.replicas
    ]
    objective = scenario.objective
    window = (scenario.warmup_s, scenario.duration_s, objective.ttft_ms, objective.inter_token_ms)
    by_tenant: dict[str, list[Outcomes]] = {}
    for stream, outcomes in zip(scenario.streams, fleet.outcomes, strict=True):
        by_tenant.setdefault(stream.tenant, []).append(outcomes)
    out: dict[str, Any] = tenant_summary(fleet.outcomes, *window)
    out["without"] = list(arm.without)
    out["unfinished"] = unfinished
    out["token_ms"] = fleet.token_times.summary_ms()
    out["tenants"] = {tenant: tenant_summary(outcomes, *window) for tenant, outcomes in by_tenant.items()}
    out["littles_law_error"] = error
    out["replica_hours"] = sum(hours)
    out["usd"] = sum(h * r.rates.usd_per_hour for h, r in zip(hours, fleet.replicas, strict=True))
    out["busy_share"] = sum(r.busy_s for r in fleet.replicas) / 3600 / max(sum(hours), 1e-12)
    out["callers_share"] = sum(r.callers_s for r in fleet.replicas) / 3600 / max(sum(hours), 1e-12)
    out["peak_replicas"] = fleet.peak_replicas
    out["scale_changes"], out["scale_reversals"] = fleet.changes, fleet.target_reversals
    out["routed"] = fleet.rule.counts()
    if fleet.batch:
        out["batch"] = fleet.batch.summary()
    if arm.gateway.max_ongoing == 1 and not arm.scale.moves and out["requests"]:
        servers = sum(kind.replicas for kind in fleet.kinds)
        out["theory"] = against_theory(fleet.outcomes, servers, scenario.warmup_s, scenario.duration_s)
    return out
