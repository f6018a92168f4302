"""A Ray of the tests' own in this process, for deployments of cheap replicas: no model, real Serve."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def own_ray(environment: Mapping[str, str]) -> Iterator[None]:
    """Ray, with Serve imported and not started; its processes have `environment` too. This process' own comes back."""
    changed = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        **environment,
    }
    before = {name: os.environ.get(name) for name in [*changed, "RAY_ADDRESS"]}
    os.environ.update(changed)
    os.environ.pop("RAY_ADDRESS", None)
    with warnings.catch_warnings(action="ignore"):  # Ray's own, as it is imported
        import ray
        from ray import serve

    ray.init(
        address="local", num_cpus=16, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False,
        configure_logging=False,
    )  # fmt: skip
    try:
        yield
    finally:
        serve.shutdown()
        ray.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
