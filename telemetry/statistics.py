"""What samples say and how sure it is: percentiles, shares and ratios with intervals that know of clusters.

Samples of one call or one conversation resemble each other, so they count for less than as many strangers.
The interval of a share follows Korn and Graubard (1998): Clopper-Pearson at the effective sample size that the
clusters' totals show. A percentile's interval inverts the share's (Woodruff 1952), so it always ends on samples; where
the samples cannot bound it (a p99 of fifty), that end is None. Ratios are bootstrapped over whole clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
Clusters = Sequence[int] | npt.NDArray[np.int64] | None

CONFIDENCE = 0.95
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure and its two-sided interval; an end that the samples cannot bound is None."""

    value: float
    low: float | None
    high: float | None
    samples: int
    clusters: int


def percentile(values: Sequence[float] | Floats, q: float, clusters: Clusters = None) -> Estimate:
    """The q-quantile (0 < q < 1) of `values`, shape (n,), interpolated linearly. Raises ValueError if empty."""
    x, groups = _checked(values, clusters)
    if not 0 < q < 1:
        raise ValueError(f"the quantile {q} is not between 0 and 1")
    point = float(np.quantile(x, q))
    effective = _effective(x <= point, q, groups)
    low_q, high_q = _clopper_pearson(q * effective, effective)
    alpha = (1 - CONFIDENCE) / 2
    low = float(np.quantile(x, low_q, method="inverted_cdf")) if (1 - q) ** effective <= alpha else None
    high = float(np.quantile(x, high_q, method="higher")) if q**effective <= alpha else None
    return Estimate(point, low, high, len(x), int(groups.max()) + 1)


def share(flags: Sequence[bool] | npt.NDArray[np.bool_], clusters: Clusters = None) -> Estimate:
    """The share of `flags`, shape (n,), that hold. Raises ValueError if empty."""
    x, groups = _checked(np.asarray(flags, dtype=np.float64), clusters)
    point = float(x.mean())
    effective = _effective(x > 0, point, groups)
    low, high = _clopper_pearson(point * effective, effective)
    return Estimate(point, low, high, len(x), int(groups.max()) + 1)


def mean(values: Sequence[float] | Floats, clusters: Clusters = None) -> Estimate:
    """The mean of `values`, shape (n,), with the t interval of the clusters' totals. Raises ValueError if empty."""
    x, groups = _checked(values, clusters)
    count, point = int(groups.max()) + 1, float(x.mean())
    if count < 2:
        return Estimate(point, None, None, len(x), count)
    totals = np.bincount(groups, x - point)
    error = float(np.sqrt(count / (count - 1) * np.sum(totals**2))) / len(x)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    return Estimate(point, point - reach, point + reach, len(x), count)


def ratio_of_percentiles(
    a: Sequence[float] | Floats,
    b: Sequence[float] | Floats,
    q: float,
    clusters_a: Clusters = None,
    clusters_b: Clusters = None,
    seed: int = 0,
) -> Estimate:
    """The q-quantile of `a` over that of `b`, two independent runs; percentile bootstrap over whole clusters.

    Raises ValueError if either is empty or b's quantile is not positive.
    """
    x, groups_x = _checked(a, clusters_a)
    y, groups_y = _checked(b, clusters_b)
    below = float(np.quantile(y, q))
    if below <= 0:
        raise ValueError("the ratio's denominator is not positive")
    point = float(np.quantile(x, q)) / below
    clusters = min(int(groups_x.max()), int(groups_y.max())) + 1
    if clusters < 2:
        return Estimate(point, None, None, len(x) + len(y), clusters)
    rng = np.random.default_rng(seed)
    ratios = _resampled(x, groups_x, q, rng) / np.maximum(_resampled(y, groups_y, q, rng), np.finfo(float).tiny)
    low, high = np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(point, float(low), float(high), len(x) + len(y), clusters)


def _checked(values: Sequence[float] | Floats, clusters: Clusters) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The values, and their clusters numbered from 0."""
    x = np.asarray(values, dtype=np.float64)
    if not len(x):
        raise ValueError("there are no samples")
    if clusters is None:
        return x, np.arange(len(x))
    if len(clusters) != len(x):
        raise ValueError(f"{len(x)} samples with {len(clusters)} clusters")
    return x, np.unique(np.asarray(clusters), return_inverse=True)[1].astype(np.int64)


def _effective(flags: npt.NDArray[np.bool_], p: float, groups: npt.NDArray[np.int64]) -> float:
    """How many independent samples these are worth for the share `p`: at most as many as there are."""
    n, count = len(flags), int(groups.max()) + 1
    if count == n or not 0 < p < 1:
        return float(count)
    if count < 2:
        return 1.0
    totals = np.bincount(groups, flags - p)
    variance = count / (count - 1) * float(np.sum(totals**2)) / n**2
    effective = n if variance <= 0 else p * (1 - p) / variance
    narrow = (stats.t.ppf(0.975, n - 1) / stats.t.ppf(0.975, count - 1)) ** 2
    return float(min(n, effective * narrow))


def _clopper_pearson(hits: float, n: float) -> tuple[float, float]:
    alpha = (1 - CONFIDENCE) / 2
    low = 0.0 if hits <= 0 else float(stats.beta.ppf(alpha, hits, n - hits + 1))
    high = 1.0 if hits >= n else float(stats.beta.ppf(1 - alpha, hits + 1, n - hits))
    return low, high


def _resampled(x: Floats, groups: npt.NDArray[np.int64], q: float, rng: np.random.Generator) -> Floats:
    """The q-quantile of each of BOOTSTRAPS draws of as many clusters, with replacement."""
    order = np.argsort(x, kind="stable")
    ordered, owner = x[order], groups[order]
    count = int(groups.max()) + 1
    quantiles = np.empty(BOOTSTRAPS)
    for i in range(BOOTSTRAPS):
        weights = np.cumsum(np.bincount(rng.integers(0, count, count), minlength=count)[owner])
        quantiles[i] = ordered[np.searchsorted(weights, q * weights[-1])]
    return quantiles
