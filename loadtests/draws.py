"""Distributions of lengths and waits, drawn from a seed before the run."""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from configs.schema import Frozen

Positive = Annotated[float, Field(gt=0, le=10_000_000)]


class Distribution(Frozen):
    """A positive quantity: always `mean`; uniform in [low, high]; or lognormal by `mean` and `cv`, kept within them."""

    kind: Literal["constant", "uniform", "lognormal"] = "constant"
    mean: Positive | None = None
    cv: Annotated[float, Field(gt=0, le=20)] | None = None
    low: Annotated[float, Field(ge=0)] | None = None
    high: Positive | None = None

    @model_validator(mode="after")
    def _parameters(self) -> "Distribution":
        needed = {"constant": {"mean"}, "uniform": {"low", "high"}, "lognormal": {"mean", "cv"}}[self.kind]
        allowed = needed | ({"low", "high"} if self.kind == "lognormal" else set())
        given = {name for name in ("mean", "cv", "low", "high") if getattr(self, name) is not None}
        if not needed <= given <= allowed:
            raise ValueError(
                f"{self.kind} takes {', '.join(sorted(needed))}, not {', '.join(sorted(given)) or 'nothing'}"
            )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low:g} is over high {self.high:g}")
        return self

    def draw(self, rng: np.random.Generator) -> float:
        if self.kind == "uniform":
            assert self.low is not None and self.high is not None
            return float(rng.uniform(self.low, self.high))
        assert self.mean is not None
        if self.kind == "constant":
            return self.mean
        assert self.cv is not None
        variance = math.log(1 + self.cv**2)
        value = float(rng.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance)))
        return min(max(value, self.low or 0.0), self.high or math.inf)

    def draw_count(self, rng: np.random.Generator) -> int:
        """A whole number of at least 1."""
        return max(1, round(self.draw(rng)))
