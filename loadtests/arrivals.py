"""When each request or call is due: worked out before the run from a seed, so that no server can slow it down."""

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from configs.errors import MISSING, InputError
from configs.schema import Frozen

MAX_ARRIVALS = 1_000_000

Rate = Annotated[float, Field(ge=0, le=100_000)]
Duration = Annotated[float, Field(gt=0, le=86_400)]


class Stage(Frozen):
    """A stretch of the run at one rate, or rising or falling evenly to `to_per_s`."""

    rate_per_s: Rate
    to_per_s: Rate | None = None
    duration_s: Duration

    @property
    def end_per_s(self) -> float:
        return self.rate_per_s if self.to_per_s is None else self.to_per_s

    @property
    def expected(self) -> float:
        """Arrivals that fall into it on average."""
        return (self.rate_per_s + self.end_per_s) / 2 * self.duration_s


class Spaced(Frozen):
    """Arrivals at a rate, or stage by stage (a ramp, steps). The spacing: even, Poisson, or gamma with a given CV."""

    kind: Literal["constant", "poisson", "gamma"] = "poisson"
    cv: Annotated[float, Field(gt=0, le=20)] | None = None
    """gamma's: the gaps' standard deviation over their mean; 1 is Poisson, more is burstier."""
    rate_per_s: Rate | None = None
    duration_s: Duration | None = None
    stages: tuple[Stage, ...] = ()

    @model_validator(mode="after")
    def _one_way(self) -> "Spaced":
        if (self.cv is not None) != (self.kind == "gamma"):
            raise ValueError("cv belongs to kind gamma, and gamma needs one")
        if bool(self.stages) == (self.rate_per_s is not None) or (self.rate_per_s is None) != (self.duration_s is None):
            raise ValueError("expected either rate_per_s and duration_s, or stages")
        return self

    def all_stages(self) -> tuple[Stage, ...]:
        if self.rate_per_s is None or self.duration_s is None:
            return self.stages
        return (Stage(rate_per_s=self.rate_per_s, duration_s=self.duration_s),)


class Trace(Frozen):
    """Arrivals as recorded: a file with one time a line, in seconds, ascending; # begins a comment."""

    kind: Literal["trace"]
    path: Path


Arrivals = Annotated[Spaced | Trace, Field(discriminator="kind")]


def due_times_s(arrivals: Spaced | Trace, seed: int) -> npt.NDArray[np.float64]:
    """Ascending due times, shape (n,), in seconds from the run's start.

    Raises InputError if there are none or too many.
    """
    due = _read_trace(arrivals.path) if isinstance(arrivals, Trace) else _spaced(arrivals, seed)
    if not len(due):
        raise InputError("load", "arrivals", MISSING, "the schedule is empty: nothing is due in this duration")
    return due


def _spaced(arrivals: Spaced, seed: int) -> npt.NDArray[np.float64]:
    """A renewal process at one arrival a second, its clock then run at the stages' rate."""
    stages = arrivals.all_stages()
    total = sum(stage.expected for stage in stages)
    if total > MAX_ARRIVALS:
        raise InputError("load", "arrivals", f"{total:.0f} requests", f"more than {MAX_ARRIVALS} in one run")
    if arrivals.kind == "constant":
        work = np.arange(math.ceil(total - 1e-9), dtype=np.float64)
    else:
        cv = arrivals.cv or 1.0
        rng = np.random.default_rng(seed)
        work = np.zeros(0)
        while not len(work) or work[-1] < total:
            gaps = rng.gamma(1 / cv**2, cv**2, size=int(total + 10 * cv * math.sqrt(total + 1) + 100))
            work = np.concatenate([work, (work[-1] if len(work) else 0.0) + np.cumsum(gaps)])
        work = work[work < total]
    return _when(work, stages)


def _when(work: npt.NDArray[np.float64], stages: tuple[Stage, ...]) -> npt.NDArray[np.float64]:
    """The moments at which the rate's integral reaches each of `work`."""
    due = np.empty_like(work)
    begun_s, done = 0.0, 0.0
    for stage in stages:
        inside = (work >= done) & (work < done + stage.expected)
        rest, slope = work[inside] - done, (stage.end_per_s - stage.rate_per_s) / stage.duration_s
        if slope:
            # slope/2·t² + rate·t = rest, in the form that does not cancel
            root = np.sqrt(np.maximum(stage.rate_per_s**2 + 2 * slope * rest, 0))
            due[inside] = begun_s + 2 * rest / (stage.rate_per_s + root) if stage.rate_per_s else begun_s + root / slope
        else:
            due[inside] = begun_s + rest / (stage.rate_per_s or 1)
        begun_s, done = begun_s + stage.duration_s, done + stage.expected
    return due


def _read_trace(path: Path) -> npt.NDArray[np.float64]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("load", "arrivals.path", str(path), f"cannot be read ({error})") from error
    times: list[float] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            at_s = float(text)
        except ValueError as error:
            raise InputError(str(path), f"line {number}", text, "expected a time in seconds") from error
        if not math.isfinite(at_s) or at_s < (times[-1] if times else 0.0):
            raise InputError(str(path), f"line {number}", text, "times have to be finite, from 0 on, and ascending")
        times.append(at_s)
        if len(times) > MAX_ARRIVALS:
            raise InputError(str(path), f"line {number}", text, f"more than {MAX_ARRIVALS} arrivals")
    return np.array(times)
