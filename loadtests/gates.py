"""A gate: limits that a run has to hold. It passes, fails or is inconclusive; it never passes for want of samples."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from configs.errors import InputError
from configs.schema import Frozen, load
from loadtests.metrics import STATISTICS, Metric, Metrics


class Verdict(IntEnum):
    """Also the exit code."""

    PASS = 0
    FAIL = 1
    INCONCLUSIVE = 2


class Check(Frozen):
    """One line: a statistic of a metric, at most or at least so much."""

    metric: str
    statistic: str | None = None
    """p50, p90, p95, p99, mean, min, max of values; None where the metric has but one (a share, a rate)."""
    at_most: float | None = None
    at_least: float | None = None
    minimum_samples: Annotated[int, Field(ge=1)] | None = None
    """Instead of the gate's own: there are fewer calls than turns."""

    @model_validator(mode="after")
    def _one_limit(self) -> "Check":
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("expected either at_most or at_least")
        return self

    def holds(self, value: float) -> bool:
        return value <= self.at_most if self.at_most is not None else value >= (self.at_least or 0.0)

    @property
    def limit(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"


class Gate(Frozen):
    """configs/gates/*.yaml."""

    minimum_samples: Annotated[int, Field(ge=1)]
    """A metric that rests on fewer is no evidence."""
    checks: Annotated[tuple[Check, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Line:
    """What became of one check."""

    check: Check
    statistic: str
    value: float | None
    samples: int
    verdict: Verdict

    def __str__(self) -> str:
        shown = "no samples" if self.value is None else f"{self.value:.4g}"
        found = f"{self.check.metric} {self.statistic} = {shown} ({self.check.limit}; {self.samples} samples)"
        return f"{self.verdict.name.lower()}: {found}"


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    lines: list[Line]
    reasons: list[str]
    """Why it is inconclusive, beyond a line's own samples."""


def read_gate(path: Path, metrics: Metrics | None = None) -> Gate:
    """The gate in a file. Raises InputError, also where a check names no metric or no statistic of it."""
    gate = load(Gate, path)
    for number, check in enumerate(gate.checks if metrics is not None else ()):
        assert metrics is not None
        if check.metric not in metrics:
            raise InputError(
                str(path), f"checks.{number}.metric", check.metric, f"no such metric; one of {', '.join(metrics)}"
            )
        allowed = STATISTICS[metrics[check.metric].kind]
        if (check.statistic is None and len(allowed) > 1) or check.statistic not in (None, *allowed):
            raise InputError(
                str(path), f"checks.{number}.statistic", check.statistic, f"expected one of {', '.join(allowed)}"
            )
    return gate


def judge(gate: Gate, metrics: Metrics, void: list[str]) -> Judgement:
    """A void run is inconclusive whatever it says; else one failing line fails, and one line short of samples leaves it
    open."""
    lines = [_line(check, metrics[check.metric], gate.minimum_samples) for check in gate.checks]
    verdicts = {line.verdict for line in lines}
    if void:
        return Judgement(Verdict.INCONCLUSIVE, lines, void)
    return Judgement(next(v for v in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS) if v in verdicts), lines, [])


def _line(check: Check, metric: Metric, minimum: int) -> Line:
    statistic = check.statistic or STATISTICS[metric.kind][0]
    found = metric.statistics().get(statistic)
    if found is None or metric.samples < (check.minimum_samples or minimum):
        return Line(check, statistic, found.value if found else None, metric.samples, Verdict.INCONCLUSIVE)
    verdict = Verdict.PASS if check.holds(found.value) else Verdict.FAIL
    return Line(check, statistic, found.value, metric.samples, verdict)
