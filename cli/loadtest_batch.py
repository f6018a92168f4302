"""`firstclause loadtest batch`: what batch work costs, gives and gives back."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from configs.deployment import DEFAULT_CONFIG, load_deployment

CASES = ("harvest", "order", "reclaim", "rows")


@click.command()
@click.option("--case", type=click.Choice(CASES), required=True, help="What is measured.")
@click.option("--rows", type=click.IntRange(min=10), default=1_000_000, show_default=True, help="rows: how many.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=480,
    show_default=True,
    help="order: letters; of fewer than 480 no floor is judged.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=30), default=120, show_default=True, help="harvest: of callers, each arm."
)
@click.option("--bursts", type=click.IntRange(min=1), default=10, show_default=True, help="reclaim: how many.")
@click.option(
    "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml",
    help="harvest, order, reclaim: the deployment whose LLM tier is started for it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def batch(case: str, rows: int, limit: int, seconds: float, bursts: int, config: Path, as_json: bool) -> None:
    """Batch work, on an LLM tier of its own that is gone afterwards.

    \b
    harvest  batch beside callers in a square wave, in the six arms of llm-d's batch gateway, here and in the simulator
             on a GPU's rates: what callers' p95 TTFT goes up by, and how much of the idle engine batch gets
    order    the reference job ordered by prefix, beside ray.data.llm's Serve stage in file order
    reclaim  from a burst of requests at voice priority to no row in flight
    rows     the job's own memory, rows a second and resume, with an engine that answers at once

    Exit codes: 0 done, 1 a floor is not met, 2 it could not be measured, 130 Ctrl-C.
    """
    from loadtests.peers.process import ProcessError

    def say(line: str) -> None:
        click.echo(line, err=True)

    short: list[str] = []
    try:
        if case == "rows":
            from loadtests import batch_rows

            found, text = batch_rows.perform(rows, say), _rows
        elif case == "order":
            from batch.reference import classify_rows
            from loadtests import batch_order

            letters = list(classify_rows(load_deployment(config).llm.model, limit))
            found, text = batch_order.perform(letters, config, say), _order
            short = batch_order.short(found)
        elif case == "reclaim":
            from loadtests import batch_reclaim

            found, text = batch_reclaim.perform(bursts, config, say), _reclaim
        else:
            from loadtests import batch_harvest

            found, text = batch_harvest.perform(seconds, config, say), _harvest
            found["simulated"] = batch_harvest.perform_simulated(say)
            short = batch_harvest.short(found) + batch_harvest.short_simulated(found["simulated"])
    except (ProcessError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps({"case": case, **found, "short": short}) if as_json else text(found))
    for line in short:
        click.echo(f"short of its floor: {line}", err=True)
    sys.exit(1 if short else 0)


def _rows(found: dict[str, Any]) -> str:
    lines = []
    for name, run in found["runs"].items():
        resumed = f", {run['resume_s']:.1f} s to the first row after the kill" if run["resume_s"] else ""
        lines.append(
            f"{name:<8} {run['rows']:>10,} rows {run['rows_per_s']:>8,.0f} a second, "
            f"{run['peak_bytes'] / 2**20:,.0f} MiB at most{resumed}"
        )
    return "\n".join([*lines, f"memory of all rows over a tenth of them: {found['memory_growth']:+.1%}"])


def _order(found: dict[str, Any]) -> str:
    lines = [
        f"{name:<14} {one['wall_s']:>8.1f} s {one['asked']:>6} asked {one['cached_share']:>6.1%} of the prompts cached"
        for name, one in found["passes"].items()
    ]
    return "\n".join(
        [
            *lines,
            f"{found['rows']} rows, {found['doubled_share']:.1%} twice, {found['prefixes']} prefixes of "
            f"{found['prefix_tokens']:,} tokens (KV memory holds {found['kv_tokens']:,.0f}), "
            f"{found['in_flight']} in flight: by order alone {found['ratio']:.2f} times as fast as the Serve stage in "
            f"file order, {found['ratio_deduplicated']:.2f} times with equal rows asked once",
        ]
    )


def _reclaim(found: dict[str, Any]) -> str:
    taken = found["reclaim_s"]
    times = f"p50 {taken['p50']:.2f} s, p95 {taken['p95']:.2f} s" if "p95" in taken else "no burst met a row"
    return (
        f"{found['bursts']} bursts of {found['requests_a_burst']} requests at voice priority, {found['idle']} upon no "
        f"row, {found['held']} that rows outlasted: from the burst to no row in flight {times}"
    )


def _harvest(found: dict[str, Any]) -> str:
    lines = [f"{'':<30}{'p95 TTFT ms':>12}{'steps over':>12}{'step ms':>9}{'rows/s':>8}{'of idle':>9}"]
    for name, arm in found["arms"].items():
        lines.append(
            f"{name:<30}{arm['p95_ttft_ms']['value']:>12.0f}{arm['steps_over_alone']:>12.1f}"
            f"{arm['longest_step_ms']:>9.0f}{arm['rows_per_s']:>8.2f}{arm['soaked_share']:>9.0%}"
        )
    lines.append(f"batch alone {found['solo_rows_per_s']:.2f} rows/s; the engine is idle {found['idle_share']:.0%}")
    lines.append(f"\n{'simulated, on a GPU':<30}{'p95 TTFT ms':>12}{'over alone':>12}{'':>9}{'':>8}{'of idle':>9}")
    for name, arm in found["simulated"]["arms"].items():
        lines.append(
            f"{name:<30}{arm['p95_ttft_ms']:>12.1f}{arm['over_alone']:>12.2f}{'':>17}{arm['soaked_share']:>9.0%}"
        )
    return "\n".join(lines)
