"""`firstclause usage`: what a tenant used, by the engines' count, and what it costs by plan price's list."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configs.deployment import DEFAULT_CONFIG, load_deployment

if TYPE_CHECKING:
    from planning.price import PriceList
    from serve_apps.gateway.books import Total


@click.command()
@click.option("--tenant", help="One tenant; all of them if not given.")
@click.option("--since", type=click.DateTime(), help="From this time on (UTC).")
@click.option("--until", type=click.DateTime(), help="Before this time (UTC).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml")
@click.pass_context
def usage(
    ctx: click.Context, tenant: str | None, since: datetime | None, until: datetime | None, as_json: bool, config: Path
) -> None:
    """The bill. Exit code 3 where nothing was used."""
    from planning.price import PriceScenario, price_list
    from planning.topics import read_scenario
    from serve_apps.gateway.books import Books

    gateway = load_deployment(config).gateway
    scenario = read_scenario("price", gateway.prices)
    assert isinstance(scenario, PriceScenario)
    prices = price_list(scenario)
    books = Books(gateway.store_url())
    try:
        totals = books.totals(tenant, _unix_s(since, 0), _unix_s(until, float("inf")))
    finally:
        books.close()
    lines = [bill(total, prices) for total in totals]
    if as_json:
        list_prices = prices.model_dump()
        click.echo(json.dumps({"prices": list_prices, "lines": lines, "usd": sum(line["usd"] for line in lines)}))
    else:
        for line in lines:
            click.echo(
                f"{line['tenant']} on {line['model']}: {line['requests']:,} requests, {line['input_tokens']:,} input "
                f"tokens, {line['cached_tokens']:,} cached, {line['output_tokens']:,} output: {line['usd']:.6f} USD"
            )
        if not lines:
            click.echo("nothing was used")
    ctx.exit(0 if lines else 3)


def bill(total: "Total", prices: "PriceList") -> dict[str, Any]:
    """A line of the bill: `input_tokens` are those that were not cached."""
    cached = total.cached_tokens / total.prompt_tokens if total.prompt_tokens else 0.0
    return {
        "tenant": total.tenant, "model": total.model, "requests": total.requests,
        "input_tokens": total.prompt_tokens - total.cached_tokens, "cached_tokens": total.cached_tokens,
        "output_tokens": total.output_tokens, "resource_tokens": total.charged_rt,
        "usd": prices.usd(total.prompt_tokens, cached, total.output_tokens),
    }  # fmt: skip


def _unix_s(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.replace(tzinfo=UTC).timestamp()
