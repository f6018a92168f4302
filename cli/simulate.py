"""`firstclause simulate`: a fleet's scenario under several rules, side by side."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

COLUMNS = ("TTFT p50", "p95", "p99 (ms)", "between tokens p95 (ms)", "good", "cached", "replica-hours", "USD")


@click.command(help=__doc__)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides a (dotted) key of the scenario."
)
@click.option("--seed", type=click.IntRange(0), help="Overrides the scenario's seed.")
def simulate(scenario: Path, as_json: bool, overrides: tuple[str, ...], seed: int | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from cli.plan import _override
    from planning.simulator.run import run
    from planning.simulator.scenario import read_scenario

    asked = read_scenario(scenario, [_override(text) for text in overrides])
    chosen = asked.seed if seed is None else seed
    bars = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*bars, console=Console(stderr=True), transient=True) as progress:
        tasks = {arm.name: progress.add_task(arm.name, total=1.0) for arm in asked.arms}
        result = run(asked, scenario.parent, chosen, lambda name, share: progress.update(tasks[name], completed=share))
    if as_json:
        click.echo(json.dumps(result))
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    arms: dict[str, dict[str, Any]] = result["arms"]
    table = Table(title=f"{result['title']}: {result['requests']:,} requests, seed {result['seed']}")
    table.add_column("arm")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    soaks = any("batch" in arm for arm in arms.values())
    minutes = any(arm["scale_changes"] for arm in arms.values())
    if minutes:
        table.add_column("minutes over the SLO", justify="right")
        table.add_column("changes (reversals)", justify="right")
    if soaks:
        table.add_column("batch rows/s", justify="right")
    for name, arm in arms.items():
        table.add_row(name, *_cells(arm, minutes, soaks))
    console = Console()
    console.print(table)
    console.print(_closing(arms), highlight=False)


def _cells(arm: dict[str, Any], minutes: bool, soaks: bool) -> Iterable[str]:
    ttft = arm["ttft_ms"]
    yield from (_number(ttft[key]) for key in ("p50", "p95", "p99"))
    yield _number(arm["token_ms"]["p95"])
    yield f"{arm['good_share']:.1%}"
    yield f"{arm['cached_share']:.1%}"
    yield f"{arm['replica_hours']:,.1f}"
    yield f"{arm['usd']:,.2f}"
    if minutes:
        yield _number(arm["slo_missing_minutes"])
        yield f"{arm['scale_changes']} ({arm['scale_reversals']})"
    if soaks:
        yield f"{arm['batch']['rows_per_s']:,.1f}" if "batch" in arm else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def _closing(arms: dict[str, dict[str, Any]]) -> str:
    """The finding in numbers: the first arm, which is ours, beside the best of the others."""
    (name, first), *others = arms.items()
    p95 = first["ttft_ms"]["p95"]
    said = (
        "no caller" if p95 is None else f"a p95 TTFT of {_number(p95)} ms, {first['good_share']:.1%} of requests good"
    )
    sentence = f"{name}: {said}, {first['replica_hours']:,.1f} replica-hours"
    rivals = {n: a for n, a in others if a["ttft_ms"]["p95"] is not None}
    if p95 is None or not rivals:
        return sentence + "."
    rival, best = min(rivals.items(), key=lambda item: item[1]["ttft_ms"]["p95"])
    ratio = p95 / best["ttft_ms"]["p95"] if best["ttft_ms"]["p95"] else float("inf")
    return (
        f"{sentence}; its p95 is {ratio:.2f} times that of the best of the others, {rival}, which has "
        f"{best['good_share']:.1%} good and {best['replica_hours']:,.1f} replica-hours."
    )
