"""The files of a deployment of one's own: a cache folder with the prepared models, and its configuration."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ruamel.yaml import YAML

from configs.models import cache_dir
from configs.schema import read_yaml
from loadtests.ports import free_port


@contextmanager
def private_config(config: Path, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Path, Path]]:
    """(folder for FIRSTCLAUSE_CACHE, configuration in it): `config` on a free port, with `changes` a section."""
    with TemporaryDirectory(prefix="firstclause-") as name:
        folder = Path(name)
        (folder / "models").symlink_to(cache_dir() / "models")
        yield folder, on_a_free_port(config, changes, folder / "deployment.yaml")


def on_a_free_port(config: Path, changes: Mapping[str, Mapping[str, Any]], path: Path) -> Path:
    """Write `config` with another port and `changes` a section to `path`; returns that."""
    data = read_yaml(config)
    for section, changed in {"http": {"port": free_port()}, **changes}.items():
        data[section] = {**data.get(section, {}), **changed}
    with path.open("w") as file:
        YAML(typ="safe").dump(data, file)
    return path
