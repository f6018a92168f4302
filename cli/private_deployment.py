"""A deployment for the length of a command, on a port of its own; others on this machine stay as they are."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from ruamel.yaml import YAML

from configs.deployment import load_deployment
from configs.models import cache_dir
from configs.schema import read_yaml
from loadtests.ports import free_port

ROOT = Path(__file__).parents[1]


@contextmanager
def private_deployment(config: Path, calls_per_replica: int) -> Iterator[tuple[str, Path]]:
    """(base URL, config file) of the deployment in `config` on a free port, with room for so many calls.

    Raises click.ClickException where it does not come up.
    """
    data = read_yaml(config)
    data.setdefault("http", {})["port"] = free_port()
    data.setdefault("voice", {})["calls_per_replica"] = calls_per_replica
    with tempfile.TemporaryDirectory(prefix="firstclause-") as name:
        folder = Path(name)
        (folder / "models").symlink_to(cache_dir() / "models")
        own_config = folder / "deployment.yaml"
        with own_config.open("w") as file:
            YAML(typ="safe").dump(data, file)
        command = [sys.executable, "-c", "from cli.main import main; main()"]
        environment = os.environ | {"FIRSTCLAUSE_CACHE": str(folder)}
        started = subprocess.run([*command, "up", "--config", str(own_config)], cwd=ROOT, env=environment)
        if started.returncode != 0:
            raise click.ClickException("the comparison's own deployment did not come up")
        try:
            yield load_deployment(own_config).http.inside_url, own_config
        finally:
            subprocess.run([*command, "down"], cwd=ROOT, env=environment, check=False)
