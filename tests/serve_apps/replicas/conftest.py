"""A Ray cluster of the tests' own, in this process, for deployments of cheap replicas: no model, real Serve."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.own_ray import own_ray

WITHIN_S = 240.0


@pytest.fixture(scope="package")
def cluster() -> Iterator[None]:
    """Serve, without HTTP."""
    environment = {
        # replicas tell their figures every half second
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_RECORD_INTERVAL_S": "0.25",
    }
    with own_ray(environment):
        from ray import serve

        serve.start(proxy_location="Disabled")
        yield


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
