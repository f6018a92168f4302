"""Arrivals and lengths have the moments that they are asked for."""

import numpy as np
import pytest

from planning.simulator.draws import Arrivals, Burst, Length


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_poisson_gaps_are_exponential_and_not_capped() -> None:
    gaps = np.diff(Arrivals(rate_per_s=10).draw(rng(), 20_000))
    assert gaps.mean() == pytest.approx(0.1, rel=0.01)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)
    # Of 200,000 exponential gaps the longest is about ln(200,000) = 12 means.
    assert 0.9 < gaps.max() < 2.5


def test_bursty_gaps_have_a_cv_of_three() -> None:
    gaps = np.diff(Arrivals(process="bursty", rate_per_s=10).draw(rng(), 50_000))
    assert gaps.mean() == pytest.approx(0.1, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(3, rel=0.03)


def test_a_pattern_and_bursts_shape_the_rate() -> None:
    arrivals = Arrivals(
        rate_per_s=100, pattern=(1, 0, 0.5), pattern_step_s=100, bursts=(Burst(at_s=50, duration_s=20, factor=3),)
    )
    times = arrivals.draw(rng(), 600)
    counts, _ = np.histogram(times, bins=[0, 50, 70, 100, 200, 300, 400, 500, 600])
    expected = [5000, 6000, 3000, 0, 5000, 10_000, 0, 5000]
    assert counts == pytest.approx(expected, rel=0.06)
    assert (np.diff(times) >= 0).all()


def test_a_line_between_values_and_round_the_end() -> None:
    times = Arrivals(rate_per_s=100, pattern=(0, 2), pattern_step_s=300, between="line").draw(rng(), 600)
    counts, _ = np.histogram(times, bins=[0, 150, 300, 450, 600])
    # From 0 to 200 a second in 300 s, and back: a quarter of the first half comes in its first half.
    assert counts == pytest.approx([7500, 22_500, 22_500, 7500], rel=0.05)


def test_together_is_together() -> None:
    assert list(Arrivals(process="together", count=3, at_s=1).draw(rng(), 10)) == [1, 1, 1]
    assert len(Arrivals(process="together", count=3, at_s=10).draw(rng(), 10)) == 0


@pytest.mark.parametrize(
    ("length", "cv"),
    [
        (Length(mean=500), 0),
        (Length(mean=500, shape="exponential"), 1),
        (Length(mean=500, shape="lognormal", cv=1.5), 1.5),
        (Length(mean=500, shape="gamma", cv=0.4), 0.4),
    ],
)
def test_lengths(length: Length, cv: float) -> None:
    drawn = length.draw(rng(), 400_000)
    assert drawn.mean() == pytest.approx(500, rel=0.01)
    assert drawn.std() / drawn.mean() == pytest.approx(cv, rel=0.03, abs=1e-9)
    assert drawn.min() >= 1


def test_a_maximum_holds() -> None:
    assert Length(mean=500, shape="exponential", maximum=600).draw(rng(), 10_000).max() == 600
