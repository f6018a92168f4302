"""`firstclause purge`: forget what the configuration does not keep longer. For a timer, once a day."""

import json
import time
from pathlib import Path

import click

from configs.deployment import DEFAULT_CONFIG, load_deployment


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
def purge(config: Path, as_json: bool) -> None:
    """Forget batch files and usage that are older than `retention` says."""
    deployment = load_deployment(config)

    from serve_apps.retention import purge as purge_all

    gone = purge_all(deployment, time.time())
    words = ", ".join(f"{count} {what}" for what, count in gone.items())
    click.echo(json.dumps(gone) if as_json else f"forgotten: {words}")
