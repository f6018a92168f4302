"""Two runs side by side: each metric's median and p95, and their ratio with its interval."""

from dataclasses import dataclass
from typing import Any

from loadtests.metrics import Metrics
from telemetry.statistics import Estimate, percentile, ratio_of_percentiles

COMPARED = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True)
class Comparison:
    """One statistic of one metric in both runs; `ratio` is the second's over the first's."""

    metric: str
    statistic: str
    unit: str
    first: Estimate
    second: Estimate
    ratio: Estimate

    @property
    def differs(self) -> bool:
        """Whether the ratio's interval leaves 1 out."""
        return self.ratio.low is not None and self.ratio.high is not None and not self.ratio.low <= 1 <= self.ratio.high

    def document(self) -> dict[str, Any]:
        shown = {
            name: {"value": estimate.value, "low": estimate.low, "high": estimate.high}
            for name, estimate in (("first", self.first), ("second", self.second), ("ratio", self.ratio))
        }
        return {"metric": self.metric, "statistic": self.statistic, "unit": self.unit, **shown, "differs": self.differs}


def compare(first: Metrics, second: Metrics) -> list[Comparison]:
    """Every metric of values that both runs have samples of and whose first value is positive."""
    found = []
    for name, a in first.items():
        b = second.get(name)
        if b is None or a.kind != "values" or not len(a.values) or not len(b.values):
            continue
        for statistic, q in COMPARED.items():
            one, other = percentile(a.values, q, a.clusters), percentile(b.values, q, b.clusters)
            if one.value > 0:
                ratio = ratio_of_percentiles(b.values, a.values, q, b.clusters, a.clusters)
                found.append(Comparison(name, statistic, a.unit, one, other, ratio))
    return found
