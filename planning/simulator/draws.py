"""Random numbers of a scenario: lengths and arrival times. All come from one seeded generator, in whole arrays."""

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from configs.schema import Frozen
from planning.quantities import Count, NonNegative, Positive

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Length(Frozen):
    """A number of tokens: fixed (only `mean`), exponential, or lognormal or gamma with a coefficient of variation."""

    mean: Positive
    shape: Literal["fixed", "exponential", "lognormal", "gamma"] = "fixed"
    cv: Positive = 1.0
    maximum: Count | None = None

    @model_validator(mode="after")
    def _check(self) -> "Length":
        if self.cv != 1.0 and self.shape in ("fixed", "exponential"):
            raise ValueError(f"cv has no meaning for a length that is {self.shape}")
        return self

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        """`count` whole numbers of at least 1."""
        if self.shape == "fixed":
            values = np.full(count, self.mean)
        elif self.shape == "exponential":
            values = rng.exponential(self.mean, count)
        elif self.shape == "gamma":
            values = rng.gamma(1 / self.cv**2, self.mean * self.cv**2, count)
        else:
            sigma = math.sqrt(math.log1p(self.cv**2))
            values = rng.lognormal(math.log(self.mean) - sigma**2 / 2, sigma, count)
        return np.asarray(np.clip(np.rint(values), 1, self.maximum), np.int64)


class Burst(Frozen):
    """The rate is `factor` times itself from `at_s` for `duration_s`."""

    at_s: NonNegative
    duration_s: Positive
    factor: NonNegative


class Arrivals(Frozen):
    """When requests come: a renewal process in the time that passes as fast as the rate, or all at once.

    `poisson` has exponential gaps and `bursty` gamma gaps with coefficient of variation `cv`, 3 by default; gaps are
    never capped. The rate is `rate_per_s` times the `pattern`'s value of the moment times that of each burst. A pattern
    has a value every `pattern_step_s`, over and over; `between` them it holds, or goes to the next in a straight line.
    `together` brings `count` requests at `at_s`.
    """

    process: Literal["poisson", "bursty", "together"] = "poisson"
    rate_per_s: NonNegative = 0.0
    cv: Positive = 3.0
    pattern: Annotated[tuple[NonNegative, ...], Field(min_length=1)] = (1.0,)
    pattern_step_s: Positive = 3600.0
    between: Literal["step", "line"] = "step"
    bursts: tuple[Burst, ...] = ()
    count: Count = 1
    at_s: NonNegative = 0.0

    @model_validator(mode="after")
    def _check(self) -> "Arrivals":
        if self.process != "together" and self.rate_per_s <= 0:
            raise ValueError("rate_per_s is missing or zero: nothing would ever arrive")
        return self

    def draw(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """The times in [0, duration_s), rising, in seconds."""
        if self.process == "together":
            return np.full(self.count, self.at_s) if self.at_s < duration_s else np.empty(0)
        edges_s, expected = self.expected(duration_s)
        total = expected[-1]
        units: list[Floats] = []
        reached = 0.0
        while reached < total:  # of a process with one arrival a unit of time
            count = int((total - reached) * 1.05) + 64
            gaps = rng.exponential(1.0, count) if self.process == "poisson" else self._gamma_gaps(rng, count)
            units.append(reached + np.cumsum(gaps))
            reached = float(units[-1][-1])
        at = np.concatenate(units) if units else np.empty(0)
        return np.asarray(np.interp(at[at < total], expected, edges_s))

    def expected(self, duration_s: float) -> tuple[Floats, Floats]:
        """Edges in time, and the expected number of arrivals up to each."""
        # A straight line is cut into sixty steps.
        step_s = self.pattern_step_s if self.between == "step" else self.pattern_step_s / 60
        edges = {0.0, duration_s, *np.arange(0.0, duration_s, step_s).tolist()}
        for burst in self.bursts:
            edges.update(t for t in (burst.at_s, burst.at_s + burst.duration_s) if t < duration_s)
        edges_s = np.array(sorted(edges))
        middles_s = (edges_s[1:] + edges_s[:-1]) / 2
        places = middles_s / self.pattern_step_s
        values = np.array(self.pattern)
        if self.between == "step":
            rates = self.rate_per_s * values[places.astype(np.int64) % len(values)]
        else:
            rates = self.rate_per_s * np.interp(places, np.arange(len(values)), values, period=len(values))
        for burst in self.bursts:
            inside = (middles_s >= burst.at_s) & (middles_s < burst.at_s + burst.duration_s)
            rates = np.where(inside, rates * burst.factor, rates)
        return edges_s, np.concatenate([[0.0], np.cumsum(rates * np.diff(edges_s))])

    def _gamma_gaps(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.gamma(1 / self.cv**2, self.cv**2, count)
