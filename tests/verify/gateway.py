"""The gateway's long check: clocks beside bare vLLM's server, isolation with and without a flood, the bill.

Every comparison is within one run, its arms taking turns. About twenty-five minutes.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configs.deployment import load_deployment
from planning.simulator.run import run
from planning.simulator.scenario import read_scenario
from tests.support.deployment import own_deployment
from tests.verify.section import Part
from tests.verify.tenants.arm import Arm
from tests.verify.tenants.checks import FLOODERS, Say, bill, compare_clocks, isolate, leave, salts
from tests.verify.tenants.fuzz import fuzz
from tests.verify.tenants.servers import bare_vllm

TTFT_FLOOR_MS, TTFT_AIM_MS = 15.0, 5.0
STEP_MS = 150.0
STEPS_FLOOR, STEPS_AIM = 2, 1
SIMULATED_FLOOR = 1.3
CACHED_FLOOR = 0.10
KV_TOKENS = 19_500
LEAVE_AIM_MS = 1000.0
KV_BYTES_PER_TOKEN = 46_080
FLEET = Path(__file__).parents[2] / "configs" / "fleets" / "tenants.yaml"


@dataclass(frozen=True)
class Counts:
    """How much of everything: a smoke run takes few."""

    pairs: int = 60
    blocks: int = 6
    asks_a_block: int = 25
    leaves: int = 12
    examples: int = 40


def simulated() -> float:
    """The calm tenant's p95 TTFT with the flood over that without, on the fleet's GPU profile."""
    scenario = read_scenario(FLEET, [])
    arms = run(scenario, FLEET.parent, scenario.seed)["arms"]
    with_it, without = (
        arms[name]["tenants"]["calm"]["ttft_ms"]["p95"] for name in ("fair order and a quota", "without the flood")
    )
    return float(with_it / without)


def verify(say: Say, counts: Counts | None = None) -> Part:
    """Floors: clocks, isolation (steps, simulator, cached share), salts, the bill."""
    counts = counts or Counts()
    config = load_deployment().llm
    short: list[str] = []
    kv_bytes = KV_TOKENS * KV_BYTES_PER_TOKEN
    with own_deployment() as url, bare_vllm(config) as bare:
        over, over_bare = compare_clocks(url, bare, config.model, counts.pairs, say)
    with own_deployment({"step_slo_ms": STEP_MS, "kv_cache_bytes": kv_bytes, "max_num_seqs": 8}) as url:
        own, others = salts(url, config.model)
        took_ms = leave(url, config.model, counts.leaves)
        arms = isolate(url, config.model, counts.blocks, counts.asks_a_block, say)
        billed, counted = bill(url)
        say("schemathesis against the gateway's own OpenAPI document")
        found = fuzz(url, counts.examples)
    ratio = simulated()

    added_ms = statistics.median(over) - statistics.median(over_bare)
    if added_ms > TTFT_FLOOR_MS:
        short.append(f"the gateway adds {added_ms:.1f} ms to the first token, over {TTFT_FLOOR_MS:g}")
    step_ms = max(arms["with"].gaps_ms + arms["without"].gaps_ms)
    if step_ms > STEP_MS:
        short.append(f"the longest step was {step_ms:.0f} ms, over {STEP_MS:g}")
    moved_ms = arms["with"].p95_ms - arms["without"].p95_ms
    if moved_ms > STEPS_FLOOR * step_ms:
        short.append(f"a flood moves another's p95 TTFT by {moved_ms:.0f} ms, over {STEPS_FLOOR} steps")
    lost = arms["without"].cached_share - arms["with"].cached_share
    if lost > CACHED_FLOOR:
        short.append(f"a flood lowers another's cached share by {lost:.0%}, over {CACHED_FLOOR:.0%}")
    if ratio > SIMULATED_FLOOR:
        short.append(f"in the simulator a flood makes another's p95 TTFT {ratio:.2f} times as long")
    if others or not own:
        short.append(
            f"a prompt of over 512 tokens found {own} cached tokens of its own and {others} of another tenant's"
        )
    if found:
        short.append(f"schemathesis found something: {found[-2000:]}")
    if billed != counted:
        short.append(f"the bill says {billed}, the engine {counted}")
    return Part(
        f"""### Clocks, one caller

client_ttft minus engine_ttft, {len(over)} questions each, the servers taking turns (medians; p95 in brackets): gateway
{_figures(over)}, bare vLLM's own server {_figures(over_bare)}: {added_ms:+.1f} ms (floor {TTFT_FLOOR_MS:+g}, aim
{TTFT_AIM_MS:+g}).

### A tenant that floods with the longest prompts

{len(arms["with"].ttft_ms)} questions of a calm tenant each, in blocks that take turns; {FLOODERS} callers of another
tenant send prompts of about 1,900 tokens without a pause. KV memory for {KV_TOKENS:,} tokens; chunks by
planning.chunks for {STEP_MS:g} ms. The longest step, as the longest gap in the calm tenant's replies: {step_ms:.0f} ms.

| calm tenant | p50 TTFT, ms | p95 | cached share |
|---|---|---|---|
{_row("without the flood", arms["without"])}
{_row("with it", arms["with"])}

Its p95 moves by {moved_ms:.0f} ms, {moved_ms / step_ms:.1f} steps (floor {STEPS_FLOOR}, aim {STEPS_AIM}); its cached
share falls by {lost:.1%} (floor {CACHED_FLOOR:.0%}). In the simulator on a GPU profile (configs/fleets/tenants.yaml)
its p95 is {ratio:.2f} times as long with the flood (floor {SIMULATED_FLOOR}).

A prompt of over 512 tokens, sent again, found {own} cached tokens; another tenant's identical one {others}.

### Leaving, and the bill

From a client's leaving to the engine stopped and its line written: median {statistics.median(took_ms):.0f} ms, longest
{max(took_ms):.0f} (aim {LEAVE_AIM_MS:.0f}). Tokens billed: {_tokens(billed)}; by the engine's counters:
{_tokens(counted)}.

schemathesis on /v1/openapi.json, {counts.examples} examples an operation: {"something was" if found else "nothing"}
found.""",
        short,
    )


def _figures(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ms ({np.percentile(values, 95):.1f})"


def _row(name: str, arm: Arm) -> str:
    return f"| {name} | {statistics.median(arm.ttft_ms):.0f} | {arm.p95_ms:.0f} | {arm.cached_share:.1%} |"


def _tokens(counts: dict[str, int]) -> str:
    return ", ".join(f"{tokens:,} {name.replace('_', ' ')}" for name, tokens in counts.items())
