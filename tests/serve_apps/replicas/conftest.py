"""A Ray cluster of the tests' own, in this process, for deployments of cheap replicas: no model, real Serve."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
WITHIN_S = 240.0


@pytest.fixture(scope="package")
def cluster() -> Iterator[None]:
    """Serve, without HTTP."""
    changed = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        # replicas tell their figures every half second
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_RECORD_INTERVAL_S": "0.25",
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
        serve.start(proxy_location="Disabled")
        yield
    finally:
        serve.shutdown()
        ray.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def eventually(true: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    """Wait until `true()` is, and return it."""
    deadline = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"after {within_s:.0f} s: {what}"
        time.sleep(0.05)
    return found


@pytest.fixture(scope="package")
def wait_until() -> Callable[..., Any]:
    return eventually
