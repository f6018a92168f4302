"""One machine's deployment: its own Ray cluster and the applications on it, until it is told to stop.

The cluster is this process's: its ports are free ones, its processes end with it, and no other Ray on the machine
is touched (`ray stop` would end them all).
"""

import os
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from configs.deployment import Deployment
from configs.errors import MISSING, InputError
from serve_apps.applications import APPLICATIONS, Served, http_options, models_of
from serve_apps.certificate import certificate_problem
from serve_apps.quiet import QUIET

PORT_PATIENCE_S = 5.0


class PortTaken(RuntimeError):
    """Something else listens where the applications are to be served."""


def check_port(host: str, port: int) -> None:
    """Raises PortTaken: a proxy that was told to stop gives its port back within `PORT_PATIENCE_S`."""
    deadline = time.monotonic() + PORT_PATIENCE_S
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise PortTaken(
                        f"http.port = {port}: {host}:{port} is taken ({error.strerror}); "
                        "end what listens there, or set another port in the config"
                    ) from error
        time.sleep(0.25)


def start(
    deployment: Deployment, progress: Callable[[str], None], applications: tuple[Served, ...] = APPLICATIONS
) -> None:
    """Start Ray and the applications; returns when they serve. Raises PortTaken, InputError or what Ray raises."""
    models_of(deployment)
    _check_access(deployment)
    deployment.gateway.check(deployment.http.host, deployment.http.loopback)
    check_port(deployment.http.host, deployment.http.port)
    os.environ.update(QUIET)
    # Ray listens on every interface: whoever has no token, which this start makes up, is refused.
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
    os.environ.pop("RAY_ADDRESS", None)
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    import ray
    from ray import serve

    begun = time.monotonic()
    progress("starting Ray")
    ray.init(
        address="local",
        num_cpus=deployment.ray.num_cpus,
        object_store_memory=deployment.ray.object_store_bytes,
        include_dashboard=False,
        log_to_driver=True,
    )
    serve.start(http_options=http_options(deployment.http))

    for served in applications:
        progress(f"loading {served.loading}")
        application = served.build(deployment.model_dump(mode="json"))
        target = serve.RunTarget(application, name=served.name, route_prefix=served.route_prefix)
        serve.run_many([target], wait_for_applications_running=served.awaited)
    progress(f"serving after {time.monotonic() - begun:.0f} s")


def _check_access(deployment: Deployment) -> None:
    """Raises InputError where a secret is missing or the certificate is of no use."""
    from serve_apps.access import check_secrets

    check_secrets(deployment)
    if tls := deployment.http.tls:
        problem = certificate_problem(tls.certificate, tls.key, datetime.now(UTC))
        if problem:
            raise InputError("http", "tls", MISSING, problem)


def stop() -> None:
    """Stop the applications, then the cluster that `start` made."""
    import ray
    from ray import serve

    if ray.is_initialized():
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()
