"""Percentiles, shares and ratios: by hand, against scipy's own intervals, and by how often they hold the truth."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from telemetry.statistics import mean, percentile, ratio_of_percentiles, share


def test_percentiles_by_hand() -> None:
    assert percentile([3, 1, 2, 5, 4], 0.5).value == 3
    assert percentile([10, 20], 0.25).value == 12.5


def test_an_interval_ends_on_samples() -> None:
    values = np.random.default_rng(0).lognormal(size=200)
    found = percentile(values, 0.9)
    assert found.low in values and found.high in values
    assert found.low is not None and found.high is not None and found.low < found.value < found.high


def test_what_samples_cannot_bound_is_left_open() -> None:
    found = percentile(list(range(50)), 0.99)
    assert found.low is not None and found.high is None
    assert percentile(list(range(5)), 0.5).low is None


def test_one_call_says_nothing_about_others() -> None:
    found = percentile(list(range(100)), 0.5, [7] * 100)
    assert (found.low, found.high, found.samples, found.clusters) == (None, None, 100, 1)


@pytest.mark.parametrize(("hits", "n"), [(0, 40), (3, 40), (40, 40), (250, 1000)])
def test_independent_shares_have_scipys_interval(hits: int, n: int) -> None:
    found = share([True] * hits + [False] * (n - hits))
    exact = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_clusters_that_agree_count_once_each() -> None:
    """20 calls of 50 equal turns: as wide as 20 turns, or a little wider."""
    flags = np.repeat([True] * 6 + [False] * 14, 50)
    clustered = share(flags, np.repeat(np.arange(20), 50))
    alone = share([True] * 6 + [False] * 14)
    assert clustered.low is not None and clustered.high is not None and alone.low is not None and alone.high is not None
    assert clustered.low <= alone.low + 0.01 and clustered.high >= alone.high - 0.01


def test_clustered_percentiles_cover_the_truth() -> None:
    """Values of 40 clusters with a common shift each: the true median is 0. Without clusters the interval lies."""
    rng = np.random.default_rng(5)
    held = naive = 0
    for _ in range(300):
        groups = np.repeat(np.arange(40), 25)
        values = np.repeat(rng.normal(size=40), 25) + 0.5 * rng.normal(size=1000)
        clustered, alone = percentile(values, 0.5, groups), percentile(values, 0.5)
        assert clustered.low is not None and clustered.high is not None and alone.low is not None
        assert alone.high is not None
        held += clustered.low <= 0 <= clustered.high
        naive += alone.low <= 0 <= alone.high
    assert held >= 0.92 * 300
    assert naive < 0.6 * 300


def test_p95_covers_the_truth() -> None:
    rng = np.random.default_rng(6)
    true = stats.expon.ppf(0.95)
    held = 0
    for _ in range(400):
        found = percentile(rng.exponential(size=300), 0.95)
        assert found.low is not None and found.high is not None
        held += found.low <= true <= found.high
    assert held >= 0.93 * 400


def test_mean_of_independent_values_has_the_t_interval() -> None:
    values = np.random.default_rng(1).normal(3, 2, size=30)
    found = mean(values)
    exact = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_ratio_covers_the_truth() -> None:
    rng = np.random.default_rng(8)
    held = 0
    for trial in range(60):
        groups = np.repeat(np.arange(30), 10)
        calls_a, calls_b = rng.normal(0, 0.3, size=30), rng.normal(0, 0.3, size=30)
        a = 200 * np.exp(np.repeat(calls_a, 10) + rng.normal(0, 0.2, size=300))
        b = 100 * np.exp(np.repeat(calls_b, 10) + rng.normal(0, 0.2, size=300))
        found = ratio_of_percentiles(a, b, 0.5, groups, groups, seed=trial)
        assert found.low is not None and found.high is not None
        held += found.low <= 2 <= found.high
    assert held >= 0.88 * 60


def test_a_run_against_itself_is_one() -> None:
    values = np.random.default_rng(2).exponential(size=100)
    found = ratio_of_percentiles(values, values, 0.95)
    assert found.value == 1
    assert found.low is not None and found.high is not None and found.low < 1 < found.high


@pytest.mark.parametrize(
    "call",
    [
        lambda: percentile([], 0.5),
        lambda: share([]),
        lambda: percentile([1], 1.0),
        lambda: percentile([1, 2], 0.5, [1]),
        lambda: ratio_of_percentiles([1], [0], 0.5),
    ],
)
def test_nonsense_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        call()
