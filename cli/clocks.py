"""`firstclause clocks`: where the time to the first token goes under a load, beside what plan clocks expects."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from configs.deployment import DEFAULT_CONFIG, load_deployment


@click.command()
@click.option("--load", "rate_per_s", type=click.FloatRange(min=0, min_open=True), required=True, help="Requests/s.")
@click.option("--duration", "duration_s", type=click.FloatRange(1, 86_400), default=30, help="Seconds.  [30]")
@click.option("--url", default=None, help="The deployment's address; from --config if not given.")
@click.option("--seed", type=click.IntRange(0), default=1, help="Of arrivals and lengths.  [1]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml")
@click.pass_context
def clocks(
    ctx: click.Context, rate_per_s: float, duration_s: float, url: str | None, seed: int, as_json: bool, config: Path
) -> None:
    """Drive the running LLM tier with an open-loop load and print each clock. Exit code 3 where nothing answers."""
    from configs.schema import load, parse, read_yaml
    from loadtests.clocks import clock_report, sentence
    from loadtests.load import LOADS, LlmLoad
    from loadtests.results import gather
    from loadtests.run import NothingThere, perform
    from planning.profile import Profile

    deployment = load_deployment(config)
    data = read_yaml(LOADS / "llm.yaml")
    del data["user"]
    data |= {
        "url": url or deployment.http.inside_url,
        "seed": seed,
        "turns": 1,
        "arrivals": {"kind": "poisson", "rate_per_s": rate_per_s, "duration_s": duration_s},
    }
    asked = parse(LlmLoad, data, "clocks")
    asked.require_loopback(False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = gather(perform(asked, Path(folder) / "run"))
    except NothingThere as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(3)
    profile = load(Profile, deployment.gateway.profile)
    report = clock_report(results.llm_samples, rate_per_s, deployment.llm.replicas, profile)
    report["void"] = results.void
    if as_json:
        click.echo(json.dumps(report))
    else:
        _print(report)
        click.echo(sentence(report))
    for reason in results.void:
        click.echo(f"void: {reason}", err=True)
    ctx.exit(2 if results.void else 0)


def _print(report: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("clock (ms)")
    for column in ("p50", "p95", "mean"):
        table.add_column(column, justify="right")
    for name, values in report["clocks"].items():
        table.add_row(name, *(f"{values[key]:.1f}" for key in ("p50", "p95", "mean")))
    plan = report["plan"]
    if "over_capacity" not in plan:
        expected = [plan[f"client_ttft_{key}_s"] * 1000 for key in ("p95", "mean")]
        table.add_row("client_ttft_ms by plan clocks", "", *(f"{value:.1f}" for value in expected))
    Console().print(table)
