"""`firstclause tenants`: who may call the LLM tier, with which key and how much."""

import json
from datetime import timedelta
from pathlib import Path

import click

from configs import keys
from configs.deployment import DEFAULT_CONFIG, load_deployment
from configs.schema import load, parse
from configs.tenants import TenantConfig, TenantsConfig, TenantsFiles

config_option = click.option(
    "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


@click.group()
def tenants() -> None:
    """Tenants and their keys. A running gateway sees each change at its next request."""


@tenants.command()
@click.argument("name")
@click.option("--class", "tenant_class", type=click.Choice(["voice", "interactive", "batch"]), default="interactive")
@click.option("--rate", type=float, help="Resource tokens a second that its bucket fills by (plan quotas). No limit.")
@click.option("--burst", type=float, help="What its bucket holds; 60 seconds of --rate if not given.")
@click.option("--kv-share", type=float, default=1.0, help="Of a replica's KV memory, at most.  [1]")
@click.option("--weight", type=float, default=1.0, help="Its share in the fair order.  [1]")
@json_option
@config_option
def add(
    name: str, tenant_class: str, rate: float | None, burst: float | None, kv_share: float, weight: float,
    as_json: bool, config: Path,
) -> None:  # fmt: skip
    """Add the tenant NAME and print its key: it is shown once, and kept as a hash."""
    if rate is None and burst is not None:
        raise click.UsageError("--burst goes with --rate")
    quota = None if rate is None else {"rate_rt_per_s": rate, "burst_rt": rate * 60 if burst is None else burst}
    data = {"class": tenant_class, "quota": quota, "max_kv_share": kv_share, "weight": weight}
    secret = keys.add(_file(config), name, parse(TenantConfig, data, f"tenant {name}"))
    _print_key(name, secret, as_json)


@tenants.command()
@click.argument("name")
@click.option("--grace", type=click.FloatRange(0), default=0, help="Seconds that the old key lasts on.  [0]")
@json_option
@config_option
def rotate(name: str, grace: float, as_json: bool, config: Path) -> None:
    """Give the tenant NAME another key, in place of those it has."""
    _print_key(name, keys.rotate(_file(config), name, timedelta(seconds=grace)), as_json)


@tenants.command()
@click.argument("name")
@json_option
@config_option
def revoke(name: str, as_json: bool, config: Path) -> None:
    """End all keys of the tenant NAME; what it has running ends within a second."""
    ended = keys.revoke(_file(config), name)
    click.echo(json.dumps({"tenant": name, "revoked": ended}) if as_json else f"{ended} keys of {name} ended")


@tenants.command(name="list")
@json_option
@config_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, config: Path) -> None:
    """The tenants and their keys' ids. Exit code 3 where there are none but those every deployment has."""
    file = _file(config)
    own = load(TenantsConfig, file) if file.exists() else TenantsConfig()
    document = own.model_dump(mode="json", by_alias=True, include={"tenants", "keys"})
    for key in document["keys"]:
        del key["sha256"]
    if as_json:
        click.echo(json.dumps({"file": str(file), **document}))
    else:
        for name, tenant in document["tenants"].items():
            quota = tenant["quota"]
            limit = f"{quota['rate_rt_per_s']:g} rt/s, {quota['burst_rt']:g} at once" if quota else "no quota"
            click.echo(f"{name}: {tenant['class']}, {limit}, weight {tenant['weight']:g}")
            for key in document["keys"]:
                if key["tenant"] == name:
                    ends = f", ends {key['ends_at']}" if key["ends_at"] else ""
                    click.echo(f"  {key['id']}: made {key['created_at']}{ends}")
        if not document["tenants"]:
            click.echo(f"no tenants in {file}; run: firstclause tenants add NAME")
    ctx.exit(0 if document["tenants"] else 3)


def _file(config: Path) -> Path:
    return TenantsFiles(load_deployment(config).gateway.tenants).file


def _print_key(name: str, secret: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"tenant": name, "key": secret}))
    else:
        click.echo(secret)
        click.echo("This is the key; it is not kept and cannot be shown again.", err=True)
