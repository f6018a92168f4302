"""`firstclause simulate`: a fleet's scenario under several rules, side by side."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

COLUMNS = ("TTFT p50", "p95", "p99 (ms)", "token p95 (ms)", "good", "cached", "replica-hours", "USD")


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides a (dotted) key of the scenario."
)
@click.option("--seed", type=click.IntRange(0), help="Overrides the scenario's seed.")
def simulate(scenario: Path, as_json: bool, overrides: tuple[str, ...], seed: int | None) -> None:
    """Run SCENARIO's fleet (a YAML file; configs/fleets/ has some) under each of its rules, on the same requests."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from cli.plan import override
    from planning.simulator.run import run
    from planning.simulator.scenario import read_scenario

    asked = read_scenario(scenario, [override(text) for text in overrides])
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
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    arms: dict[str, dict[str, Any]] = result["arms"]
    title = Text(f"{result['title']}: {result['requests']:,} requests, seed {result['seed']}")
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
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
        table.add_row(Text(name), *_cells(arm, minutes, soaks))
        if len(arm["tenants"]) > 1:
            for tenant, figures in arm["tenants"].items():
                table.add_row(Text(f"  {tenant}"), *_caller_cells(figures))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    console.print(table)
    for name, arm in arms.items():
        if "theory" in arm:
            console.print(Text(_theory(name, arm["theory"])))
    console.print(Text(_closing(arms)))


def _cells(arm: dict[str, Any], minutes: bool, soaks: bool) -> Iterable[str]:
    first, second, third, _, good, cached = _caller_cells(arm)
    yield from (first, second, third, _number(arm["token_ms"]["p95"]), good, cached)
    yield f"{arm['replica_hours']:,.1f}"
    yield f"{arm['usd']:,.2f}"
    if minutes:
        yield _number(arm["slo_missing_minutes"])
        yield f"{arm['scale_changes']} ({arm['scale_reversals']})"
    if soaks:
        yield f"{arm['batch']['rows_per_s']:,.1f}" if "batch" in arm else "-"


def _caller_cells(figures: dict[str, Any]) -> tuple[str, ...]:
    """What a tenant felt; an arm's tokens are timed one by one, a tenant's by the mean of each request."""
    ttft = (_number(figures["ttft_ms"][key]) for key in ("p50", "p95", "p99"))
    shares = (f"{figures[key]:.1%}" for key in ("good_share", "cached_share"))
    return (*ttft, _number(figures["inter_token_ms"]["p95"]), *shares)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def _theory(name: str, theory: dict[str, float]) -> str:
    return (
        f"{name}: requests waited {theory['wait_ms']:,.2f} ms in front of the fleet; M/G/m says "
        f"{theory['m_g_m_wait_ms']:,.2f} ms for services of {theory['service_ms']:,.1f} ms with a cv of "
        f"{theory['service_cv']:.2f}: {theory['error']:+.1%}."
    )


def _closing(arms: dict[str, dict[str, Any]]) -> str:
    """The finding in numbers: the first arm beside the best of the others, by what the first tenant felt."""
    (name, first), *others = arms.items()
    tenant = next(iter(first["tenants"]))
    felt = first["tenants"][tenant]
    p95 = felt["ttft_ms"]["p95"]
    said = (
        "no request" if p95 is None else f"a p95 TTFT of {_number(p95)} ms, {felt['good_share']:.1%} of requests good"
    )
    sentence = f"{name}: {tenant} had {said} for {first['replica_hours']:,.1f} replica-hours"
    rivals = {n: a for n, a in others if a["tenants"][tenant]["ttft_ms"]["p95"] and not a["without"]}
    if p95 is None or not rivals:
        return sentence + "."
    rival = min(rivals, key=lambda n: rivals[n]["tenants"][tenant]["ttft_ms"]["p95"])
    best = rivals[rival]["tenants"][tenant]
    ratio = p95 / best["ttft_ms"]["p95"]
    return (
        f"{sentence}; its p95 is {ratio:.2g} times that of the best of the others, {rival}, which had "
        f"{best['good_share']:.1%} good for {rivals[rival]['replica_hours']:,.1f} replica-hours."
    )
