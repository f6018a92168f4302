"""`firstclause link`: a link that opens the talk page for a while."""

import os
import time
from pathlib import Path

import click

from configs.deployment import DEFAULT_CONFIG, load_deployment


@click.command()
@click.option(
    "--hours", type=click.FloatRange(0.01, 24 * 366), default=24, show_default=True, help="How long it opens."
)
@click.option("--url", help="Where the page is, as callers reach it; default: what the configuration says.")
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml")
def link(hours: float, url: str | None, config: Path) -> None:
    """Print a link for a browser, or for `firstclause talk --url`.

    It is signed with the key of the environment variable that access.secret_env names.
    """
    deployment = load_deployment(config)

    from serve_apps.access import PARAMETER, Links

    signed = Links.of(deployment.access, os.environ).sign(time.time() + hours * 3600)
    click.echo(f"{(url or deployment.http.inside_url).rstrip('/')}/?{PARAMETER}={signed}")
