"""The router's and the scaler's long checks: decision times, routers and scaling rules side by side in the simulator,
and three routers on two real replicas, in one run on the same requests."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from configs.deployment import DEFAULT_CONFIG, LlmConfig, load_deployment
from configs.models import prepared
from configs.schema import read_yaml
from loadtests.ports import free_port
from loadtests.results import gather
from loadtests.routing import CASES, Arm, Case, Sizes, load_of, table
from loadtests.run import perform
from planning.policies.prefix import prefix_keys
from planning.policies.route import ReplicaRates, RouteConfig, Router
from planning.simulator.run import run
from planning.simulator.scenario import read_scenario
from serve_apps.llm import engine_arguments, engine_environment
from telemetry.profiler.checkpoint import weight_files
from telemetry.profiler.engine import EngineSpec
from telemetry.profiler.load import start_once
from tests.support.compared_deployment import compared_deployment
from tests.support.compared_routers import ARMS
from tests.support.deployment import own_cache
from tests.support.routing_capacity import served_per_s
from tests.verify import suite
from tests.verify.section import Part

Say = Callable[[str], None]

FLEETS = Path("configs/fleets")
DECISION_MS = {64: 1.0, 1000: 5.0}
SEEDS = (1, 2, 3)
OURS = "spill"
CACHED_WITHIN = 0.05
NOTHING_HOT = ("conversations", "shifting")


def verify(say: Say) -> Part:
    short: list[str] = []
    text = [
        decisions(say, short),
        routing_simulated(say, short),
        scaling_simulated(say, short),
        noise(say, short),
        scaled_in_serve(say, short),
        load_times(say, short),
        compared_on_replicas(say, short),
    ]
    return Part("\n\n".join(text), short)


def scaled_in_serve(say: Say, short: list[str]) -> str:
    """The autoscaling policy in Ray Serve, with replicas that start and end slowly."""
    outcomes = suite.run(say, "serve_apps/replicas/test_scaling_serve.py")
    short += suite.short(outcomes)
    return f"### Scaling in Ray Serve\n\nSlow starts, a burst, streams open at a scale-down: {suite.passed(outcomes)}."


# -- decision time ---------------------------------------------------------------------------------------------------


def decisions(say: Say, short: list[str]) -> str:
    """The time of a decision with its reservation, keys included, for prompts of 8,400 tokens given as tokens."""
    rows = []
    for replicas, floor_ms in DECISION_MS.items():
        taken_ms = np.array(list(_decide(replicas)))[500:] * 1000
        p50, p99, worst = np.percentile(taken_ms, (50, 99, 100))
        rows.append(f"| {replicas:,} | {p50:.2f} | {p99:.2f} | {worst:.2f} | {floor_ms:g} |")
        say(f"a decision among {replicas} replicas: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        if p99 > floor_ms:
            short.append(f"a decision among {replicas} replicas takes {p99:.2f} ms at p99, over {floor_ms:g}")
    return f"""### The time of a decision

Keys of a prompt of 8,400 tokens, choice and reservation, 60 % of the requests with one prefix; the thread's own time.

| replicas | p50 ms | p99 ms | longest | floor of p99 |
|---|---|---|---|---|
{chr(10).join(rows)}"""


def _decide(replicas: int) -> Iterator[float]:
    rng = random.Random(1)
    router = Router(RouteConfig(), 1)
    for number in range(replicas):
        router.add(number, ReplicaRates(66_900, 256, 500_000, 0.008, 0.00002))
    prefixes = [[rng.randrange(100_000) for _ in range(8_000)] for _ in range(400)]
    running = []
    for number in range(6_500):
        prefix = prefixes[0] if rng.random() < 0.6 else rng.choice(prefixes)
        tokens = prefix + [rng.randrange(100_000) for _ in range(400)]
        begun = time.thread_time()
        ticket = router.route(prefix_keys(b"salt", "model", tokens, 16), len(tokens), 150, number / 1000)
        yield time.thread_time() - begun
        running.append(ticket)
        if len(running) > 12 * replicas:
            done = running.pop(rng.randrange(len(running)))
            router.first_token(done, done.hit_tokens)
            router.end(done)


# -- the simulator ---------------------------------------------------------------------------------------------------

Simulated = dict[str, tuple[str, dict[str, Any]]]
ROUTED: Simulated = {
    "hot prefix, 64 replicas": (
        "routing.yaml",
        {
            "fleet.8b.replicas": 64,
            "streams.0.arrivals.rate_per_s": 1800,
            "streams.0.shared.count": 1600,
            "duration_s": 60,
            "warmup_s": 25,
        },
    ),
    "conversations, 64 replicas": (
        "conversations.yaml",
        {
            "fleet.8b.replicas": 64,
            "streams.0.arrivals.rate_per_s": 640,
            "streams.0.conversations.active": 8000,
            "duration_s": 90,
            "warmup_s": 30,
        },
    ),
    "shifting prefixes, 64 replicas": (
        "routing.yaml",
        {
            "fleet.8b.replicas": 64,
            "streams.0.arrivals.rate_per_s": 600,
            "streams.0.shared.count": 600,
            "streams.0.shared.hot_share": 0.0,
            "streams.0.shared.shift_s": 15,
            "duration_s": 60,
            "warmup_s": 15,
        },
    ),
    "hot prefix, 1,000 replicas": (
        "routing.yaml",
        {
            "fleet.8b.replicas": 1000,
            "streams.0.arrivals.rate_per_s": 28_000,
            "streams.0.shared.count": 25_000,
            "duration_s": 10,
            "warmup_s": 5,
        },
    ),
}
RULES = [
    {"name": OURS},
    {"name": "power of two", "route": {"rule": "power-of-two"}},
    {"name": "Ray prefix affinity", "route": {"rule": "ray-prefix-affinity"}},
    {"name": "llm-d at its 18 s", "route": {"rule": "llm-d-affinity"}},
    {"name": "llm-d at 5 s", "route": {"rule": "llm-d-affinity", "max_ttft_penalty_ms": 5000}},
]


def routing_simulated(say: Say, short: list[str]) -> str:
    parts = []
    for title, (file, changes) in ROUTED.items():
        say(f"simulating: {title}")
        scenario = read_scenario(FLEETS / file, [*changes.items(), ("arms", RULES)])
        arms = run(scenario, FLEETS, scenario.seed)["arms"]
        rows = [
            f"| {name} | {arm['ttft_ms']['p50']:,.0f} | {arm['ttft_ms']['p95']:,.0f} | {arm['ttft_ms']['p99']:,.0f} "
            f"| {arm['good_share']:.1%} | {arm['cached_share']:.1%} |"
            for name, arm in arms.items()
        ]
        parts.append(
            f"{title[0].upper()}{title[1:]} ({file}):\n\n| rule | TTFT p50 ms | p95 | p99 | good | cached |\n"
            f"|---|---|---|---|---|---|\n" + "\n".join(rows)
        )
        ours = arms[OURS]["ttft_ms"]["p95"]
        for name in ("power of two", "Ray prefix affinity"):
            if "hot" in title and not ours < arms[name]["ttft_ms"]["p95"]:
                short.append(f"simulated, {title}: p95 {ours:.0f} ms, {name} {arms[name]['ttft_ms']['p95']:.0f}")
        affine = max(arm["cached_share"] for name, arm in arms.items() if name != OURS)
        if "hot" not in title and arms[OURS]["cached_share"] < (1 - CACHED_WITHIN) * affine:
            short.append(f"simulated, {title}: {arms[OURS]['cached_share']:.1%} cached, pure affinity {affine:.1%}")
    return "### Routing rules in the simulator\n\n" + "\n\n".join(parts)


def scaling_simulated(say: Say, short: list[str]) -> str:
    say("simulating: a day of scaling")
    scenario = read_scenario(FLEETS / "scaling.yaml")
    arms = run(scenario, FLEETS, scenario.seed)["arms"]
    ours, *others = arms
    rows = [
        f"| {name} | {arm['slo_missing_minutes']} | {arm['replica_hours']:,.1f} | {arm['good_share']:.2%} "
        f"| {arm['scale_changes']} ({arm['scale_reversals']}) |"
        for name, arm in arms.items()
    ]
    missed, hours = (arms[ours][key] for key in ("slo_missing_minutes", "replica_hours"))
    for name in others:
        # No rule does better for as much or less.
        if arms[name]["replica_hours"] <= hours and arms[name]["slo_missing_minutes"] <= missed:
            short.append(f"simulated day: {name} misses no more for {arms[name]['replica_hours']:.1f} replica-hours")
        if arms[name]["slo_missing_minutes"] < missed:
            short.append(f"simulated day: {name} misses {arms[name]['slo_missing_minutes']} minutes, ours {missed}")
    return f"""### Scaling rules in the simulator

`configs/fleets/scaling.yaml`: a day with three bursts, a load time of {scenario.fleet["70b"].profile.load_time_s:g} s.

| rule | minutes over the SLO | replica-hours | good | changes (reversals) |
|---|---|---|---|---|
{chr(10).join(rows)}"""


NOISE_S = 300
REVERSALS = 1


def noise(say: Say, short: list[str]) -> str:
    """Five minutes of noise on real replicas: the number goes up and down once at most."""
    say(f"{NOISE_S} s of noise on real replicas")
    command = [sys.executable, "-m", "tests.support.noise", str(NOISE_S)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NOISE_S + 600, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    if seen["reversals"] > REVERSALS:
        short.append(f"{seen['reversals']} reversals in {NOISE_S} s of noise: {seen['targets']}")
    return f"""### Noise on real replicas

Work of 3 busy replicas with a deviation of 1, drawn four times a second, for {NOISE_S} s: {seen["changes"]} changes,
{seen["reversals"]} reversals (replicas: {", ".join(map(str, seen["targets"]))})."""


# -- load time -------------------------------------------------------------------------------------------------------


def load_times(say: Say, short: list[str]) -> str:
    """The parts of a first start and of a second, as deployed and with torch.compile, each in a process of its own."""
    llm = load_deployment().llm
    folder = prepared(llm.model)
    weights = weight_files(folder)
    rows, took = [], {}
    with TemporaryDirectory() as cache:
        for compiled in (False, True):
            for start, cold in (("first", weights), ("second", [])):
                name = f"{'torch.compile' if compiled else 'as deployed'}, {start}"
                say(f"a start, {name}")
                loaded = start_once(engine_spec(llm, folder, Path(cache), compiled), cold)
                took[compiled, start] = loaded.load_time_s
                parts = ", ".join(f"{part.removesuffix('_s')} {s:.1f}" for part, s in loaded.parts.items())
                rows.append(f"| {name} | {loaded.load_time_s:.1f} | {parts} |")
    if took[True, "second"] > took[True, "first"] / 2:
        short.append(
            f"with torch.compile a second start takes {took[True, 'second']:.0f} s of {took[True, 'first']:.0f}"
        )
    return f"""### Load time

One engine, from nothing to its first token. A first start reads the weights from the disk and has an empty compile
cache; a second has both. Preparing the model (its download) comes before either.

| start | s | parts, s |
|---|---|---|
{chr(10).join(rows)}"""


def engine_spec(llm: LlmConfig, folder: Path, cache: Path, compiled: bool) -> EngineSpec:
    """The deployment's engine, with torch.compile or as it is deployed; what it compiles is kept in `cache`."""
    arguments, environment = engine_arguments(llm), engine_environment(llm)
    if compiled:
        arguments["enforce_eager"] = False
        environment["TORCH_COMPILE_DISABLE"] = "0"
    caches = {"VLLM_CACHE_ROOT": str(cache / "vllm"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
    return EngineSpec(str(folder), arguments, environment | caches)


# -- two replicas ----------------------------------------------------------------------------------------------------


@contextmanager
def two_replicas() -> Iterator[str]:
    """The URL of two replicas, a core each, whose KV memory holds a little less than the forty prefixes."""
    with TemporaryDirectory() as name, own_cache(Path(name)) as folder:
        data: dict[str, Any] = read_yaml(DEFAULT_CONFIG)
        data["http"]["port"] = free_port()
        data["llm"] |= {"replicas": 2, "cpu_cores": "nobind", "kv_cache_bytes": 512 * 2**20}
        path = folder / "two.yaml"
        with path.open("w") as file:
            YAML(typ="safe").dump(data, file)
        with compared_deployment(path) as url:
            yield url


def compared_on_replicas(say: Say, short: list[str]) -> str:
    with two_replicas() as url, TemporaryDirectory() as name:
        found, rate, void = compare(url, Path(name), CASES, Sizes(), SEEDS, say)
    short += void
    for case in CASES:
        arms = found[case.name]
        ours = arms[OURS]
        for other in arms.values():
            if other is ours or not ours.ttft_ms or not other.ttft_ms:
                continue
            ratio = ours.ratio(other)
            if case.name == "hot" and not (ratio.high is not None and ratio.high < 1):
                short.append(
                    f"two replicas, hot prefix: p95 {ratio.value:.2f} times {other.name}'s, up to {ratio.high}"
                )
        pure = arms["prefix-affinity"]
        if case.name in NOTHING_HOT and ours.cached_share < (1 - CACHED_WITHIN) * pure.cached_share:
            short.append(
                f"two replicas, {case.name}: {ours.cached_share:.1%} cached, {pure.cached_share:.1%} by affinity"
            )
        if ours.failed:
            short.append(f"two replicas, {case.name}: {ours.failed} requests failed")
    tables = "\n\n".join(table(case, list(found[case.name].values())) for case in CASES)
    return f"""### Three routers on two replicas

The stand-in model, a core each; prompts of {Sizes().prefix} + {Sizes().suffix} words, {Sizes().output} tokens out;
{rate:.2f} requests a second served with everything cached. TTFT from the due moment; {len(SEEDS)} seeds, the routers
by turns; the ratio of the p95 with its 95 % interval. Ray's routers are Ray's own classes at their defaults.

{tables}"""


def compare(
    url: str, folder: Path, cases: tuple[Case, ...], sizes: Sizes, seeds: tuple[int, ...], say: Say
) -> tuple[dict[str, dict[str, Arm]], float, list[str]]:
    """Case -> router -> what it did; the requests a second that are served from the cache; why a run is void."""
    rate = served_per_s(url, sizes)
    say(f"{rate:.2f} requests a second are served from the cache")
    found = {case.name: {name: Arm(name) for name in ARMS} for case in cases}
    void = []
    for seed in seeds:
        for case in cases:
            order = list(ARMS)
            order = order[seed % len(order) :] + order[: seed % len(order)]
            for name in order:
                load = load_of(case, sizes, seed, name, url, rate, folder)
                results = gather(perform(load, folder / f"run-{case.name}-{seed}-{name}"))
                void += [f"two replicas, {case.name}, seed {seed}, {name}: {reason}" for reason in results.void]
                found[case.name][name].add(results.llm_samples)
                arm = found[case.name][name]
                p95 = f"{arm.p(0.95):.0f}" if arm.ttft_ms else "-"
                say(f"{case.name}, seed {seed}, {name}: p95 {p95} ms, {arm.cached_share:.0%} cached")
    return found, rate, void
