"""How many LLM replicas there may be, and how their number follows the load."""

from typing import Annotated

from pydantic import Field, model_validator

from configs.schema import Frozen


class ScalingConfig(Frozen):
    """The load time comes from the profile (gateway.profile).

    utilization_ceiling: how busy replicas may be at the busiest; headroom_fraction: what demand grows by while a
    replica loads, until six hours of it were seen; then it is measured. look_back_s: how long the busiest moment
    counts against going down. burst_s: how long a backlog may take to be worked off. interval_s: how often it decides.
    """

    min_replicas: Annotated[int, Field(ge=1)] = 1
    max_replicas: Annotated[int, Field(ge=1)]
    utilization_ceiling: Annotated[float, Field(gt=0, le=1)] = 0.8
    headroom_fraction: Annotated[float, Field(ge=0)] = 0.2
    look_back_s: Annotated[float, Field(gt=0)] = 600.0
    burst_s: Annotated[float, Field(gt=0)] = 30.0
    interval_s: Annotated[float, Field(gt=0)] = 5.0

    @model_validator(mode="after")
    def _check(self) -> "ScalingConfig":
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas = {self.max_replicas} is under min_replicas = {self.min_replicas}")
        return self
