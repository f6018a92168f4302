"""ledger: measured runs judged by USD a good request, not by the figure in their headline.

A run is taken only if it keeps the SLO, is not shown to be worse in quality by more than the margin, was tried often
enough, and saves money. Quality is compared by Newcombe's hybrid score interval (R. G. Newcombe, Statistics in Medicine
17, 1998, method 10) of the difference of two pass rates.
"""

from math import sqrt
from statistics import NormalDist
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.quantities import Count, Fraction, InnerFraction, Name, NonNegative, Outputs, Positive, Scenario, Whole
from planning.topic import Picture, Row, Topic

Reason = Literal["latency", "quality", "too_few", "no_saving"]
Verdict = Literal["accepted", "rejected", "baseline"]


def _load(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == "knee" or (number and 0 < value < float("inf")):
        return value
    raise ValueError('expected "knee" or a positive number of requests_per_s')


Load = Annotated[Literal["knee"] | float, BeforeValidator(_load)]


class Slo(Frozen):
    p95_ttft_ms: Positive
    p95_inter_token_ms: Positive


class Headline(Frozen):
    """What a run is praised for: a metric at `factor` times the baseline's."""

    metric: Name
    factor: Positive


class Run(Frozen):
    """One measured run; load: requests_per_s offered, or "knee" where each run was driven to its own."""

    name: Name
    usd_per_gpu_hour: NonNegative
    gpus: Count
    duration_s: Positive
    requests: Count
    good_requests: Whole
    p95_ttft_ms: NonNegative
    p95_inter_token_ms: NonNegative
    quality_passed: Whole
    quality_trials: Count
    load: Load
    headline: Headline | None = None

    @field_validator("good_requests")
    @classmethod
    def _among_the_requests(cls, good: int, info: ValidationInfo) -> int:
        if good > info.data.get("requests", good):
            raise ValueError(f"more than requests = {info.data['requests']}")
        return good

    @field_validator("quality_trials")
    @classmethod
    def _hold_the_passed(cls, trials: int, info: ValidationInfo) -> int:
        if trials < info.data.get("quality_passed", 0):
            raise ValueError(f"fewer than quality_passed = {info.data['quality_passed']}")
        return trials

    @property
    def usd_per_good_request(self) -> float | None:
        """None where no request was good."""
        usd = self.usd_per_gpu_hour * self.gpus * self.duration_s / 3600
        return usd / self.good_requests if self.good_requests else None


class LedgerScenario(Scenario):
    slo: Slo
    quality_margin: Fraction
    alpha: InnerFraction
    minimum_trials: Whole
    baseline: Name
    runs: Annotated[tuple[Run, ...], Field(min_length=1)]

    @field_validator("runs")
    @classmethod
    def _comparable(cls, runs: tuple[Run, ...], info: ValidationInfo) -> tuple[Run, ...]:
        names = [run.name for run in runs]
        if len(set(names)) < len(names):
            raise ValueError("two runs have one name")
        if info.data.get("baseline", names[0]) not in names:
            raise ValueError(f"none of them is the baseline, {info.data['baseline']}")
        return runs


class LedgerOutputs(Outputs):
    usd_per_good_request: Annotated[
        dict[str, float | None], Row("usd_per_gpu_hour · gpus · duration_s / 3600 / good_requests", "USD")
    ]
    quality_lower_bound: Annotated[
        dict[str, float], Row("lower bound, one-sided at alpha, of pass rate − the baseline's")
    ]
    reasons: Annotated[dict[str, list[Reason]], Row("what holds against a run")]
    verdicts: Annotated[dict[str, Verdict], Row("accepted where nothing does")]
    misleading: Annotated[list[str], Row("headline factor over 1, and rejected")]
    chosen: Annotated[str, Row("the cheapest accepted, else the baseline")]


def wilson(passed: int, trials: int, alpha: float) -> tuple[float, float]:
    """Wilson's score bounds of a pass rate, each one-sided at 1 − alpha."""
    z = NormalDist().inv_cdf(1 - alpha)
    rate = passed / trials
    centre = rate + z * z / (2 * trials)
    half = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return (centre - half) / scale, (centre + half) / scale


def quality_lower_bound(run: Run, baseline: Run, alpha: float) -> float:
    """The lower one-sided 1 − alpha bound of the run's pass rate less the baseline's."""
    ours, theirs = run.quality_passed / run.quality_trials, baseline.quality_passed / baseline.quality_trials
    low, _ = wilson(run.quality_passed, run.quality_trials, alpha)
    _, high = wilson(baseline.quality_passed, baseline.quality_trials, alpha)
    return ours - theirs - sqrt((ours - low) ** 2 + (high - theirs) ** 2)


def reasons_against(run: Run, baseline: Run, s: LedgerScenario) -> list[Reason]:
    """All that holds against a run beside the baseline; nothing: it is accepted."""
    reasons: list[Reason] = []
    if run.p95_ttft_ms > s.slo.p95_ttft_ms or run.p95_inter_token_ms > s.slo.p95_inter_token_ms:
        reasons.append("latency")
    if quality_lower_bound(run, baseline, s.alpha) < -s.quality_margin:
        reasons.append("quality")
    if run.quality_trials < s.minimum_trials:
        reasons.append("too_few")
    ours, theirs = run.usd_per_good_request, baseline.usd_per_good_request
    if ours is None or (theirs is not None and ours >= theirs):
        reasons.append("no_saving")
    return reasons


def plan_ledger(s: LedgerScenario) -> LedgerOutputs:
    """Each run's verdict. Raises InputError where the runs were not measured at one load."""
    baseline = next(run for run in s.runs if run.name == s.baseline)
    for run in s.runs:
        if run.load != baseline.load:
            problem = f"the baseline's is {baseline.load}; compare runs at one load, or each at its knee"
            raise InputError("ledger", f"{run.name}.load", run.load, problem)
    usd = {run.name: run.usd_per_good_request for run in s.runs}
    others = [run for run in s.runs if run is not baseline]
    reasons = {run.name: reasons_against(run, baseline, s) for run in others}
    accepted = [run for run in others if not reasons[run.name]]
    verdicts: dict[str, Verdict] = {run.name: "rejected" if reasons[run.name] else "accepted" for run in others}
    return LedgerOutputs(
        usd_per_good_request=usd,
        quality_lower_bound={run.name: quality_lower_bound(run, baseline, s.alpha) for run in others},
        reasons={baseline.name: [], **reasons},
        verdicts={baseline.name: "baseline", **verdicts},
        misleading=[run.name for run in others if run.headline and run.headline.factor > 1 and reasons[run.name]],
        chosen=min(accepted, key=lambda run: usd[run.name] or 0.0).name if accepted else baseline.name,
    )


def finding(s: LedgerScenario, o: LedgerOutputs) -> str:
    rejected = []
    for run in s.runs:
        if run.name in o.misleading and run.headline:
            why = ", ".join(o.reasons[run.name])
            rejected.append(f"{run.name} ({run.headline.factor:g} times in {run.headline.metric}; {why})")
    paid, before = o.usd_per_good_request[o.chosen], o.usd_per_good_request[s.baseline]
    cost = "" if paid is None else f" at {paid * 1000:.3f} USD per 1,000 good requests"
    saved = (
        "" if paid is None or not before or o.chosen == s.baseline else f", {1 - paid / before:.0%} under the baseline"
    )
    misled = f"These do not make a cheaper service: {'; '.join(rejected)}." if rejected else "No headline misleads."
    return f"{misled} The one to run is {o.chosen}{cost}{saved}."


def picture(s: LedgerScenario, o: LedgerOutputs) -> Picture:
    names = list(o.usd_per_good_request)
    series = {
        verdict: [
            None if (usd := o.usd_per_good_request[name]) is None or o.verdicts[name] != verdict else usd * 1000
            for name in names
        ]
        for verdict in ("baseline", "accepted", "rejected")
    }
    return Picture("run", "USD per 1,000 good requests", names, series, bars=True)


TOPIC = Topic(
    "Which of several measured runs makes a cheaper service, and whose headline misleads?",
    LedgerScenario,
    plan_ledger,
    finding,
    picture,
)
