"""An application of two deployments that scale together, as Serve builds it from a config file."""

from typing import Any

from ray import serve
from ray.serve import Application

from serve_apps.autoscaling_stats import WorkTally

SCALED = {"min_replicas": 1, "max_replicas": 8, "upscale_delay_s": 0.0, "downscale_delay_s": 0.0}


@serve.deployment(autoscaling_config=SCALED, ray_actor_options={"num_cpus": 0.1}, graceful_shutdown_timeout_s=1)
class Llm:
    """Tells its work, and is told how much there was."""

    def __init__(self) -> None:
        self.tally = WorkTally(lambda _: 0.0)

    def work(self, rt: float) -> None:
        self.tally.arrived_rt += rt

    def record_autoscaling_stats(self) -> dict[str, float]:
        return self.tally.stats()


@serve.deployment(autoscaling_config=SCALED, ray_actor_options={"num_cpus": 0.1}, graceful_shutdown_timeout_s=1)
class Voice:
    def __init__(self, llm: Any) -> None:
        self.llm = llm

    async def work(self, rt: float) -> None:
        await self.llm.work.remote(rt)


def build(_: dict[str, str]) -> Application:
    application: Application = Voice.bind(Llm.bind())  # type: ignore[attr-defined]
    return application
