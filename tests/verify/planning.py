"""Planning's long checks: this machine's profile and the plans it feeds, the simulator against queueing theory and
against the real tier, its speed, and every reference scenario's finding."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from configs.schema import parse
from loadtests.load import LlmLoad
from loadtests.results import gather
from loadtests.run import perform
from loadtests.sweep_runs import perform_sweep
from planning.fleet import request_replica_s
from planning.profile import Profile
from planning.simulator.run import run
from planning.simulator.scenario import read_scenario as read_fleet
from planning.topics import PLANS, TOPICS, read_scenario, reference
from tests.support.cli import run_firstclause
from tests.support.deployment import own_deployment
from tests.support.simulated_tier import Ttft, measured_ttft, simulated_ttft
from tests.verify.section import Part

Say = Callable[[str], None]

USD_PER_HOUR = 0.08
"""An assumption: two cores' price in a cloud, May 2026."""
THEORY_WITHIN = 0.03
TIER_FLOOR, TIER_AIM = 0.25, 0.10
SHARE_OF_KNEE = 0.6
RUNS, RUN_S, TRIAL_S = 5, 75, 25
MILLION_FLOOR_S, MILLION_AIM_S = 1200, 600
FLEETS = PLANS.parent / "fleets"
LOAD: dict[str, Any] = {
    "prompts": {"tokens": {"kind": "lognormal", "mean": 40, "cv": 0.5, "high": 200}},
    "output_tokens": {"kind": "lognormal", "mean": 24, "cv": 0.5, "high": 96},
    "ignore_eos": True,  # the lengths are the load's, not the model's
    "slo": {"due_ttft_ms": 500, "inter_token_ms": 100},
}
"""Short questions and short answers, as in configs/loads/llm.yaml, a turn each."""


def verify(say: Say) -> Part:
    short: list[str] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        with own_deployment() as url:
            profile, printed = measure(url, folder, say, short)
            tier = compare_tier(url, profile, folder, say)
        plans = plans_of(folder / "profile.json", profile)
    short += tier.short()
    theory = check_theory(say)
    short += [
        f"the simulator's wait is {error:+.1%} off theory's in {case}"
        for case, error, exact in theory
        if exact and abs(error) > THEORY_WITHIN
    ]
    say("a million requests on a thousand replicas")
    million_s, requests = million()
    if million_s > MILLION_FLOOR_S:
        short.append(f"{requests:,} requests took {million_s:.0f} s, over {MILLION_FLOOR_S} s")
    findings = reference_findings()
    for line in (*plans, *findings):
        say(line)
    text = f"""### This machine's profile

`firstclause profile` of `firstclause up`, in {profile["wall_s"]:.0f} s:

```
{printed.strip()}
```

{_list(plans)}

### The simulator against the real tier

{tier.text()}

### The simulator against queueing theory

`configs/fleets/queues.yaml`. M/M/m and M/G/1 are exact (floor: within {THEORY_WITHIN:.0%}); M/G/m is Allen and
Cunneen's approximation, whose error is reported. Little's law is checked in every run.

| case | theory over simulated wait |
|---|---|
{chr(10).join(f"| {case} | {error:+.2%} |" for case, error, _ in theory)}

### The simulator's speed

{requests:,} requests on 1,000 replicas in {million_s:.0f} s (floor {MILLION_FLOOR_S}, aim {MILLION_AIM_S}).

### What each reference scenario finds

{_list(findings)}
"""
    return Part(text, short)


def measure(url: str, folder: Path, say: Say, short: list[str]) -> tuple[dict[str, Any], str]:
    """The profile, also as folder/profile.json, and what the command printed."""
    say("profiling")
    begun = time.monotonic()
    done = run_firstclause("profile", "--usd-per-gpu-hour", str(USD_PER_HOUR), "--json", timeout_s=1200)
    if not done.stdout:
        raise RuntimeError(f"no profile of {url}: {done.stderr}")
    profile: dict[str, Any] = json.loads(done.stdout)
    short += [f"the profile is void: {reason}" for reason in profile["measured"]["void"]]
    (folder / "profile.json").write_text(done.stdout, encoding="utf-8")
    say(done.stderr)
    return profile | {"wall_s": time.monotonic() - begun}, done.stderr.replace(url, "the deployment")


def plans_of(path: Path, profile: dict[str, Any]) -> list[str]:
    """`plan fleet` and `plan voice` fed with the profile, as a user would: what they find."""
    # The lines of model time are what this machine needs for two callers at once; the others are the budget's.
    clause_ms = 3 * (profile["itl_base_ms"] + 2 * profile["itl_per_sequence_ms"])
    asked = {
        "fleet": ("requests_per_s=1", "prompt_tokens=128", "output_tokens=24"),
        "voice": (
            f"allocation_ms.llm_first_token={profile['ttft_ms']}", f"allocation_ms.clause={clause_ms * 1.001}",
            "clause_tokens=4", "reply_tokens=24", "calls=2",
        ),
    }  # fmt: skip
    found = []
    for topic, changes in asked.items():
        overrides = [word for change in (f"profile={path}", *changes) for word in ("--set", change)]
        done = run_firstclause("plan", topic, *overrides)
        if done.returncode:
            raise RuntimeError(f"plan {topic} refuses the profile: {done.stderr}")
        lines = done.stdout.strip().splitlines()
        closing = lines[max(i for i, line in enumerate(lines) if not line.strip()) + 1 :]
        found.append(f"plan {topic} on this machine: {' '.join(' '.join(closing).split())}")
    return found


@dataclass(frozen=True)
class TierComparison:
    """Pairs of what was measured and simulated, a run each."""

    knee_per_s: float
    rate_per_s: float
    requests: int
    pairs: list[tuple[Ttft, Ttft]]
    void: list[str]

    def medians(self) -> tuple[Ttft, Ttft]:
        """Measured and simulated: the medians over the runs."""
        measured, simulated = (
            Ttft(median(t.mean_ms for t in side), median(t.p95_ms for t in side))
            for side in zip(*self.pairs, strict=True)
        )
        return measured, simulated

    def short(self) -> list[str]:
        measured, simulated = self.medians()
        errors = zip(("mean", "p95"), simulated.error(measured), strict=True)
        off = [
            f"the simulated {name} TTFT is {e:+.0%} off the real tier's" for name, e in errors if abs(e) > TIER_FLOOR
        ]
        return off + self.void

    def text(self) -> str:
        measured, simulated = self.medians()
        rows = [
            f"| {number} | {real.mean_ms:.0f} | {sim.mean_ms:.0f} | {real.p95_ms:.0f} | {sim.p95_ms:.0f} |"
            for number, (real, sim) in enumerate([*self.pairs, (measured, simulated)], 1)
        ]
        rows[-1] = rows[-1].replace(f"| {len(rows)} |", "| median |")
        mean, p95 = simulated.error(measured)
        slo = LOAD["slo"]
        return f"""One replica. The knee, by a sweep (95 % of requests within {slo["due_ttft_ms"]} ms to the first token
and {slo["inter_token_ms"]} ms a token): {self.knee_per_s:.3g} requests a second. {len(self.pairs)} open-loop runs of
{RUN_S} s at {self.rate_per_s:.3g} a second, {self.rate_per_s / self.knee_per_s:.0%} of it, {self.requests} requests
together; the simulator had the same arrivals and lengths, and the profile above.

| run | mean TTFT measured, ms | simulated | p95 measured | simulated |
|---|---|---|---|---|
{chr(10).join(rows)}

The simulated mean is {mean:+.1%} off, the p95 {p95:+.1%} (floor {TIER_FLOOR:.0%}, aim {TIER_AIM:.0%})."""


def compare_tier(url: str, profile: dict[str, Any], folder: Path, say: Say) -> TierComparison:
    """Find the knee, then measure and simulate the same runs under it."""
    rates = parse(Profile, profile, "profile")
    capacity_per_s = 1 / request_replica_s(70, 0, 24, rates)
    say(f"the real tier's knee (the profile says {capacity_per_s:.3g} requests a second at most)")
    sweep = _load(url, capacity_per_s / 2, TRIAL_S, 1)
    knee = perform_sweep(
        sweep, folder / "sweep", None, capacity_per_s / 2, 1000, 0.2, 1, say, lambda _: nullcontext(lambda line: None)
    )
    if knee.holds_per_s is None:
        raise RuntimeError(f"the tier holds no rate within the SLO: {knee.stopped}")
    rate = SHARE_OF_KNEE * knee.holds_per_s
    pairs, void, requests = [], [], 0
    for seed in range(1, RUNS + 1):
        out = folder / f"run-{seed}"
        done = perform(_load(url, rate, RUN_S, seed), out)
        void += [f"run {seed} against the real tier: {reason}" for reason in gather(done).void]
        failed = [sample["outcome"] for sample in done.samples if sample["outcome"] != "ok"]
        if failed:
            void.append(f"run {seed} against the real tier: {len(failed)} requests failed ({failed[0]})")
            continue
        requests += len(done.samples)
        pairs.append((measured_ttft(done.samples), simulated_ttft(done.samples, profile, out)))
        (real, simulated) = pairs[-1]
        say(f"run {seed} at {rate:.3g} a second: measured {real}, simulated {simulated}")
    if not pairs:
        raise RuntimeError(f"no run against the real tier went through: {void[0]}")
    return TierComparison(knee.holds_per_s, rate, requests, pairs, void)


def _load(url: str, rate_per_s: float, duration_s: float, seed: int) -> LlmLoad:
    arrivals = {"kind": "poisson", "rate_per_s": rate_per_s, "duration_s": duration_s}
    return parse(LlmLoad, LOAD | {"url": url, "seed": seed, "arrivals": arrivals}, "the tier's load")


QUEUES: dict[str, tuple[dict[str, Any], bool]] = {
    # name: (what differs from queues.yaml, whether theory is exact)
    "M/M/4 at 0.7": ({}, True),
    "M/M/1 at 0.7": ({"fleet.server.replicas": 1, "streams.0.arrivals.rate_per_s": 7, "duration_s": 40_000}, True),
    "M/G/1 at 0.5, cv 1.5": (
        {
            "fleet.server.replicas": 1,
            "streams.0.arrivals.rate_per_s": 5,
            "streams.0.suffix_tokens.shape": "gamma",
            "streams.0.suffix_tokens.cv": 1.5,
            "duration_s": 60_000,
        },
        True,
    ),
    "M/G/4 at 0.7, cv 1.5": ({"streams.0.suffix_tokens.shape": "lognormal", "streams.0.suffix_tokens.cv": 1.5}, False),
}


def check_theory(say: Say) -> list[tuple[str, float, bool]]:
    """(case, relative error of theory's wait against the simulated one, whether theory is exact)."""
    found = []
    for case, (changes, exact) in QUEUES.items():
        scenario = read_fleet(FLEETS / "queues.yaml", changes.items())
        (arm,) = run(scenario, FLEETS, scenario.seed)["arms"].values()
        found.append((case, float(arm["theory"]["error"]), exact))
        say(f"{case}: theory {found[-1][1]:+.2%} off the simulated wait")
    return found


def million() -> tuple[float, int]:
    """Seconds of one core for configs/fleets/million.yaml, and its requests."""
    scenario = read_fleet(FLEETS / "million.yaml")
    begun = time.process_time()
    requests = run(scenario, FLEETS, scenario.seed)["requests"]
    return time.process_time() - begun, requests


def reference_findings() -> list[str]:
    """Each reference scenario's closing sentence."""
    found = []
    for name, topic in TOPICS.items():
        scenario = read_scenario(name, reference(name))
        found.append(f"{name}: {topic.finding(scenario, topic.answer(scenario, name))}")
    return found


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
