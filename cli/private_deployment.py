"""A deployment for the length of a command, on a port of its own; others on this machine stay as they are."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from configs.deployment import load_deployment
from loadtests.private_config import private_config

ROOT = Path(__file__).parents[1]


@contextmanager
def private_deployment(config: Path, calls_per_replica: int) -> Iterator[tuple[str, Path]]:
    """(base URL, config file) of the deployment in `config` on a free port, with room for so many calls.

    Raises click.ClickException where it does not come up.
    """
    with private_config(config, {"voice": {"calls_per_replica": calls_per_replica}}) as (folder, own_config):
        command = [sys.executable, "-c", "from cli.main import main; main()"]
        environment = os.environ | {"FIRSTCLAUSE_CACHE": str(folder)}
        started = subprocess.run([*command, "up", "--config", str(own_config)], cwd=ROOT, env=environment)
        if started.returncode != 0:
            raise click.ClickException("the comparison's own deployment did not come up")
        try:
            yield load_deployment(own_config).http.inside_url, own_config
        finally:
            subprocess.run([*command, "down"], cwd=ROOT, env=environment, check=False)
