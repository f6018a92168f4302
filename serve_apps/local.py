"""One machine's deployment: its own Ray cluster and the applications on it, until it is told to stop.

The cluster is this process's: its ports are free ones, its processes end with it, and no other Ray on the machine
is touched (`ray stop` would end them all).
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from configs.budgets import load_budget
from configs.deployment import Deployment
from configs.models import prepared

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "LOGURU_LEVEL": "INFO",  # pipecat's debug lines hold what callers say
}
"""Set before Ray is imported: all models are local, so that nothing needs to call out."""


class PortTaken(RuntimeError):
    """Something else listens where the applications are to be served."""


def check_port(host: str, port: int) -> None:
    """Raises PortTaken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(
                f"http.port = {port}: {host}:{port} is taken ({error.strerror}); "
                "end what listens there, or set another port in the config"
            ) from error


def start(deployment: Deployment, progress: Callable[[str], None]) -> None:
    """Start Ray and the applications; returns when they serve. Raises PortTaken, InputError or what Ray raises."""
    models = {
        "llm": prepared(deployment.llm.model),
        "asr": prepared(deployment.voice.hearing.model),
        "tts": prepared(deployment.voice.speaking.model),
    }
    budget = load_budget()
    check_port(deployment.http.host, deployment.http.port)
    os.environ.update(QUIET)
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
    serve.start(http_options={"host": deployment.http.host, "port": deployment.http.port})

    from serve_apps import llm, voice

    progress(f"loading the LLM {deployment.llm.model}")
    serve.run(llm.build(deployment.llm, models["llm"]), name=llm.APP_NAME, route_prefix="/v1")
    progress("loading the voice models")
    serve.run(voice.build(deployment, budget, models), name=voice.APP_NAME, route_prefix="/")
    progress(f"serving after {time.monotonic() - begun:.0f} s")


def stop() -> None:
    """Stop the applications, then the cluster that `start` made."""
    import ray
    from ray import serve

    if ray.is_initialized():
        serve.shutdown()  # type: ignore[no-untyped-call]
        ray.shutdown()
